import { createHash, timingSafeEqual } from 'node:crypto';
import { refusal, type Answer, type Answering, type Incoming } from '../http/incoming.js';
import { AdminLog, type AdminCall } from '../observe/logs/admin-log.js';
import type { RouteContext } from './context.js';

const TOKEN_NAME_BYTES = 4;

/** Who may call the `/admin` endpoints: whoever has the token. They share a log, and the limit on wrong tokens. */
export class AdminAccess {
  readonly log: AdminLog;
  /** Names the token in the log, so that a changed token shows, without telling it. */
  readonly tokenName: string | null;
  readonly #tokenDigest: Buffer | null;

  constructor({ log, metrics, configuration }: Pick<RouteContext, 'log' | 'metrics' | 'configuration'>) {
    this.log = new AdminLog(log, metrics);
    const { drsAdminToken } = configuration;
    this.#tokenDigest = drsAdminToken === undefined ? null : sha256(drsAdminToken);
    this.tokenName = this.#tokenDigest?.toString('hex', 0, TOKEN_NAME_BYTES) ?? null;
  }

  /**
   * Checks whether a token is configured, and whether the request has it.
   *
   * @param answer the rest of the call, for whoever may
   */
  admit(incoming: Incoming, answer: (call: AdminCall) => Answering): Answering {
    const call: AdminCall = { address: incoming.clientAddress, requestId: incoming.requestId };
    if (this.#tokenDigest === null) {
      this.log.record('not_configured', call);
      return refusal(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
    }
    const [, token] = /^bearer +(\S+)$/i.exec(incoming.header('authorization') ?? '') ?? [];
    // Digests have a fixed length, so the time of the comparison does not even reveal the token's length.
    if (token !== undefined && timingSafeEqual(sha256(token), this.#tokenDigest)) return answer(call);
    return this.#refuseStranger(incoming, call);
  }

  /** Like {@link admit}, for calls without a body. */
  admitBodiless(incoming: Incoming, answer: (call: AdminCall) => Answering): Answering {
    return this.admit(incoming, (call) => {
      if (!incoming.hasBody) return answer(call);
      this.log.record('malformed', call);
      return refusal(400, 'the request has a body, expected none');
    });
  }

  #refuseStranger({ client }: Incoming, call: AdminCall): Answer {
    const wait = this.log.admitFailure(client);
    if (wait > 0) {
      this.log.record('rate_limited', call);
      return refusal(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    }
    this.log.record('unauthorized', call);
    return refusal(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
