import { createHash, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import { refusal, type Answering, type Incoming } from '../http/incoming.js';
import { RateLimit } from '../load/rate-limit.js';
import type { AdminOutcome, Metrics } from '../observe/metrics/metrics.js';
import { Sampler } from '../observe/sampler.js';
import type { RouteContext } from './context.js';

/** A call of an `/admin` endpoint, for the log. */
export interface AdminCall {
  readonly address: string;
  readonly requestId: string;
}

const TOKEN_NAME_BYTES = 4;
const FAILURES_PER_MINUTE = 10;

/**
 * Who may call the `/admin` endpoints: whoever has the token. Calls without it are limited to 10 per minute for each client, and
 * not all are logged. Calls with it are never limited: a revocation may be urgent, and the guesses of others must not delay it.
 */
export class AdminAccess {
  /** Names the token in the log, so that a changed token shows, without telling it. */
  readonly tokenName: string | null;
  readonly #tokenDigest: Buffer | null;
  readonly #log: Logger;
  /** Logs whatever `LOG_LEVEL` says: who revoked what must be known. */
  readonly #audit: Logger;
  readonly #metrics: Metrics;
  readonly #failures = new RateLimit(FAILURES_PER_MINUTE, 0, 60);
  readonly #sampler: Sampler;

  constructor({ log, metrics, configuration }: Pick<RouteContext, 'log' | 'metrics' | 'configuration'>) {
    const { drsAdminToken } = configuration;
    this.#tokenDigest = drsAdminToken === undefined ? null : sha256(drsAdminToken);
    this.tokenName = this.#tokenDigest?.toString('hex', 0, TOKEN_NAME_BYTES) ?? null;
    this.#log = log;
    this.#audit = log.child({}, { level: 'info' });
    this.#metrics = metrics;
    this.#sampler = new Sampler((leftOut) =>
      log.warn({ leftOut }, 'admin: as many more calls without the token, left out of the log'),
    );
  }

  /**
   * Checks whether a token is configured, and whether the request has it.
   *
   * @param answer the rest of the call, for whoever may
   */
  admit(incoming: Incoming, answer: (call: AdminCall) => Answering): Answering {
    const call: AdminCall = { address: incoming.clientAddress, requestId: incoming.requestId };
    if (this.#tokenDigest === null) {
      this.record('not_configured', call);
      return refusal(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
    }
    const [, token] = /^bearer +(\S+)$/i.exec(incoming.header('authorization') ?? '') ?? [];
    // Digests have a fixed length, so the time of the comparison does not even reveal the token's length.
    if (token !== undefined && timingSafeEqual(sha256(token), this.#tokenDigest)) return answer(call);
    const wait = this.#failures.admit(incoming.client);
    if (wait > 0) {
      this.record('rate_limited', call);
      return refusal(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    }
    this.record('unauthorized', call);
    return refusal(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
  }

  /** Like {@link admit}, for calls without a body. */
  admitBodiless(incoming: Incoming, answer: (call: AdminCall) => Answering): Answering {
    return this.admit(incoming, (call) => {
      if (!incoming.hasBody) return answer(call);
      this.record('malformed', call);
      return refusal(400, 'the request has a body, expected none');
    });
  }

  /** Logs and counts a call. Call it once for each. */
  record(outcome: AdminOutcome, call: AdminCall, facts: Readonly<Record<string, unknown>> = {}): void {
    this.#metrics.adminCalls[outcome]++;
    const line = { outcome, ...call, ...facts };
    if (outcome === 'done' || outcome === 'listed') this.#audit.info(line, 'admin');
    else if (outcome === 'failed') this.#audit.error(line, 'admin');
    else if (!WITHOUT_TOKEN.has(outcome) || this.#sampler.admits()) this.#log.warn(line, 'admin');
  }
}

const WITHOUT_TOKEN: ReadonlySet<AdminOutcome> = new Set(['unauthorized', 'rate_limited', 'not_configured']);

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
