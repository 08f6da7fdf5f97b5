import { createHash, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import { decodeUtf8 } from '#platform';
import { parseStrictJson } from '../../protocol/json.js';
import { toUsd } from '../../protocol/money.js';
import { memberOf, readAsked, RevocationStoreError, toJson, type Asked } from '../../revocation/index.js';
import type { ReplayStore } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { inPieces } from '../http/batch.js';
import { NDJSON_TYPE, refusal, type Answer, type Answering, type Incoming } from '../http/incoming.js';
import { answerTo } from '../http/judged-body.js';
import type { Ticket } from '../load/gatekeeper.js';
import { RateLimit } from '../load/rate-limit.js';
import { printable } from '../observe/logs/verdict-logs.js';
import type { AdminOutcome } from '../observe/metrics/metrics.js';
import { Sampler } from '../observe/sampler.js';
import type { RouteContext } from '../core.js';

/** A call of an `/admin` endpoint, for the log. */
interface AdminCall {
  readonly address: string;
  readonly requestId: string;
}

const BODY_BYTES = 1024;
const TOKEN_NAME_BYTES = 4;
const FAILURES_PER_MINUTE = 10;
const WITHOUT_TOKEN: ReadonlySet<AdminOutcome> = new Set(['unauthorized', 'rate_limited', 'not_configured']);

/**
 * `POST /admin/revoke`, `GET /admin/revocations` and `GET /admin/usage?receipt=sha256:…`, for whoever has the token. Calls without it
 * are limited to 10 per minute for each client, and not all are logged. Calls with it are never limited: a revocation may be urgent, and
 * the guesses of others must not delay it.
 */
export class AdminRoutes {
  readonly #context: RouteContext;
  readonly #tokenDigest: Buffer | null;
  /** Names the token in the log, so that a changed token shows, without telling it. */
  readonly #token: string | null;
  /** Logs whatever `LOG_LEVEL` says: who revoked what must be known. */
  readonly #audit: Logger;
  readonly #failures = new RateLimit(FAILURES_PER_MINUTE, 0, 60);
  readonly #sampler: Sampler;

  constructor(context: RouteContext) {
    const { log, configuration } = context;
    const { drsAdminToken } = configuration;
    this.#context = context;
    this.#tokenDigest = drsAdminToken === undefined ? null : sha256(drsAdminToken);
    this.#token = this.#tokenDigest?.toString('hex', 0, TOKEN_NAME_BYTES) ?? null;
    this.#audit = log.child({}, { level: 'info' });
    this.#sampler = new Sampler((leftOut) =>
      log.warn({ leftOut }, 'admin: as many more calls without the token, left out of the log'),
    );
  }

  /** Checks, in this order: whether it is configured, the token, the size, the body. */
  readonly revoke = (incoming: Incoming, ticket: Ticket): Answering => {
    const call = callOf(incoming);
    return this.#refusalOf(incoming, call) ?? this.#revoke(incoming, ticket, call);
  };

  /** Lists all revocations. Checks, in this order: whether it is configured, the token, that there is no body. */
  readonly list = (incoming: Incoming): Answering => {
    const call = callOf(incoming);
    const refused = this.#refusalOf(incoming, call) ?? this.#bodyRefusalOf(incoming, call);
    if (refused !== null) return refused;
    this.#record('listed', call, { token: this.#token });
    return { status: 200, headers: { 'Content-Type': NDJSON_TYPE }, body: inPieces(this.#lines()) };
  };

  /** Tells what was counted of a receipt. Checks the same, and the query at the end. */
  readonly usage = (incoming: Incoming): Answering => {
    const call = callOf(incoming);
    const refused = this.#refusalOf(incoming, call) ?? this.#bodyRefusalOf(incoming, call);
    if (refused !== null) return refused;
    const query = incoming.query ?? '';
    const [, hex] = /^receipt=sha256(?::|%3[Aa])([\da-f]{64})$/.exec(query) ?? [];
    if (hex !== undefined) return this.#usage(call, `sha256:${hex}`);
    this.#record('malformed', call);
    return refusal(400, `the query is ${show(query)}, expected receipt=sha256: and 64 hex digits`);
  };

  /** Why a call may not be made; `null` if a token is configured, and the request has it. */
  #refusalOf(incoming: Incoming, call: AdminCall): Answer | null {
    if (this.#tokenDigest === null) {
      this.#record('not_configured', call);
      return refusal(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
    }
    const [, token] = /^bearer +(\S+)$/i.exec(incoming.header('authorization') ?? '') ?? [];
    // Digests have a fixed length, so the time of the comparison does not even reveal the token's length.
    if (token !== undefined && timingSafeEqual(sha256(token), this.#tokenDigest)) return null;
    const wait = this.#failures.admit(incoming.client);
    if (wait > 0) {
      this.#record('rate_limited', call);
      return refusal(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    }
    this.#record('unauthorized', call);
    return refusal(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
  }

  #bodyRefusalOf({ hasBody }: Incoming, call: AdminCall): Answer | null {
    if (!hasBody) return null;
    this.#record('malformed', call);
    return refusal(400, 'the request has a body, expected none');
  }

  /** Logs and counts a call. Call it once for each. */
  #record(outcome: AdminOutcome, call: AdminCall, facts: Readonly<Record<string, unknown>> = {}): void {
    const { log, metrics } = this.#context;
    metrics.adminCalls[outcome]++;
    const line = { outcome, ...call, ...facts };
    if (outcome === 'done' || outcome === 'listed') this.#audit.info(line, 'admin');
    else if (outcome === 'failed') this.#audit.error(line, 'admin');
    else if (!WITHOUT_TOKEN.has(outcome) || this.#sampler.admits()) log.warn(line, 'admin');
  }

  *#lines(): Generator<string, void> {
    for (const entry of this.#context.engine.revocation.store.entries.values()) yield `${toJson(entry)}\n`;
  }

  async #revoke(incoming: Incoming, ticket: Ticket, call: AdminCall): Promise<Answer | null> {
    const body = await incoming.read(BODY_BYTES, ticket);
    if (body === 'gone') return null;
    if (typeof body === 'string') {
      this.#record(body, call);
      if (body !== 'too_large') return answerTo(body, this.#context.configuration);
      return refusal(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    }
    const asked = readRevocation(body);
    if (typeof asked === 'string') {
      this.#record('malformed', call);
      return refusal(400, asked);
    }
    const { target, reason, exp } = asked;
    const member = memberOf(target);
    const facts = {
      [member === 'status_list_index' ? 'statusListIndex' : member]: target,
      ...(exp !== null && { exp }),
      ...{ token: this.#token, reason: printable(reason) },
    };
    try {
      await this.#context.engine.revocation.revoke(asked);
    } catch (error) {
      this.#record('failed', call, { ...facts, err: error });
      return refusal(503, `the revocation could not be ${stateAfter(error)}`);
    }
    this.#record('done', call, facts);
    return { status: 200, body: JSON.stringify({ revoked: true, [member]: target }) };
  }

  async #usage(call: AdminCall, receipt: string): Promise<Answer> {
    const facts = { receipt, token: this.#token };
    const { engine, gate } = this.#context;
    try {
      const stores = [engine.replays, gate.replays];
      const [ofVerify, ofGate] = await Promise.all(stores.map((store) => usageIn(store, receipt)));
      this.#record('listed', call, facts);
      return { status: 200, body: JSON.stringify({ receipt, verify: ofVerify, gate: ofGate }) };
    } catch (error) {
      this.#record('failed', call, { ...facts, err: error });
      return refusal(503, 'the store of used invocations cannot tell; try again');
    }
  }
}

function callOf({ clientAddress: address, requestId }: Incoming): AdminCall {
  return { address, requestId };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function stateAfter(error: unknown): string {
  const fault = error instanceof RevocationStoreError ? error.fault : null;
  if (fault === 'unconfirmed') return 'confirmed; it may be in force, and may be lost; try again';
  if (fault === 'full') return `recorded and is not in force: ${(error as Error).message}`;
  return 'recorded and is not in force; try again';
}

/** Returns what to revoke, or an error message. */
function readRevocation(body: Buffer): Asked | string {
  const text = decodeUtf8(body);
  if (text === null) return 'the body is not UTF-8, expected JSON';
  const { value, defect } = parseStrictJson(text);
  if (defect) return `the body is not strict JSON: ${defect.message}`;
  const asked = readAsked(value);
  return typeof asked === 'string' ? `the body is not a revocation: ${asked}` : asked;
}

/** @returns `null` if nothing is counted there */
async function usageIn(store: ReplayStore | null, receipt: string): Promise<object | null> {
  if (store === null) return null;
  const { calls, microUsd } = (await store.usageOf(receipt)) ?? { calls: 0, microUsd: 0 };
  return { calls, total_cost_usd: toUsd(microUsd) };
}
