import { createHash, timingSafeEqual } from 'node:crypto';
import { decodeUtf8 } from '#platform';
import { parseStrictJson } from '../../protocol/json.js';
import { toUsd } from '../../protocol/money.js';
import {
  membersOf,
  readRevocationRequest,
  RevocationStoreError,
  toJson,
  type RevocationRequest,
} from '../../revocation/index.js';
import type { ReplayStore } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { inPieces } from '../http/batch.js';
import { NDJSON_TYPE, errorAnswer, type Answer, type Answering, type Exchange } from '../http/exchange.js';
import { answerTo } from '../http/body-handler.js';
import type { Ticket } from '../load/gatekeeper.js';
import { RateLimit } from '../load/rate-limit.js';
import { printable } from '../observe/logs/verdict-logs.js';
import type { AdminOutcome } from '../observe/metrics/metrics.js';
import { openSampler } from '../observe/sampler.js';
import type { RouteContext } from '../core.js';

const BODY_BYTES = 1024;
const TOKEN_NAME_BYTES = 4;
const FAILURES_PER_MINUTE = 10;
const WITHOUT_TOKEN: ReadonlySet<AdminOutcome> = new Set(['unauthorized', 'rate_limited', 'not_configured']);

/**
 * `POST /admin/revoke`, `GET /admin/revocations` and `GET /admin/usage?receipt=sha256:…`, for whoever has the token. Calls without it
 * are limited to 10 per minute for each client, and not all are logged. Calls with it are never limited: a revocation may be urgent, and
 * the guesses of others must not delay it.
 */
export function adminRoutes({ configuration, engine, gate, log, metrics }: RouteContext) {
  const { drsAdminToken } = configuration;
  const tokenDigest = drsAdminToken === undefined ? null : sha256(drsAdminToken);
  // Names the token in the log, so that a changed token shows, without telling it.
  const token = tokenDigest?.toString('hex', 0, TOKEN_NAME_BYTES);
  // Logs whatever `LOG_LEVEL` says: who revoked what must be known.
  const audit = log.child({}, { level: 'info' });
  const failures = new RateLimit(FAILURES_PER_MINUTE, 0, 60);
  const sampler = openSampler((leftOut) =>
    log.warn({ leftOut }, 'admin: as many more calls without the token, left out of the log'),
  );

  /** Logs and counts a call. Call it once for each. */
  const record = (outcome: AdminOutcome, { address, requestId }: Exchange, facts = {}): void => {
    metrics.adminCalls[outcome]++;
    const line = { outcome, address, requestId, ...facts };
    if (outcome === 'done' || outcome === 'listed') audit.info(line, 'admin');
    else if (outcome === 'failed') audit.error(line, 'admin');
    else if (!WITHOUT_TOKEN.has(outcome) || sampler.admits()) log.warn(line, 'admin');
  };
  const malformed = (exchange: Exchange, error: string): Answer => {
    record('malformed', exchange);
    return errorAnswer(400, error);
  };

  /** Why a call may not be made; `null` if a token is configured, and the request has it. */
  const refusalOf = (exchange: Exchange): Answer | null => {
    // Before anything is waited for: the address of a client that has gone is not known.
    exchange.address ??= exchange.clientAddress;
    if (tokenDigest === null) {
      record('not_configured', exchange);
      return errorAnswer(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
    }
    const [, sent] = /^bearer +(\S+)$/i.exec(exchange.header('authorization') ?? '') ?? [];
    // Digests have a fixed length, so the time of the comparison does not even reveal the token's length.
    if (sent !== undefined && timingSafeEqual(sha256(sent), tokenDigest)) return null;
    const wait = failures.admit(exchange.client);
    if (wait > 0) {
      record('rate_limited', exchange);
      return errorAnswer(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    }
    record('unauthorized', exchange);
    return errorAnswer(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
  };
  const readRefusalOf = (exchange: Exchange): Answer | null =>
    refusalOf(exchange) ??
    (exchange.hasBody ? malformed(exchange, 'the request has a body, expected none') : null);

  function* linesOfAll(): Generator<string, void> {
    for (const entry of engine.revocation.store.entries.values()) yield `${toJson(entry)}\n`;
  }

  const revokeBy = async (exchange: Exchange, ticket: Ticket): Promise<Answer | null> => {
    const body = await exchange.read(BODY_BYTES, ticket);
    if (body === 'gone') return null;
    if (typeof body === 'string') {
      record(body, exchange);
      if (body !== 'too_large') return answerTo(body, configuration);
      return errorAnswer(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    }
    const asked = readRevocation(body);
    if (typeof asked === 'string') return malformed(exchange, asked);
    const { target, reason, exp } = asked;
    const named = membersOf(target);
    const { status_list_index: statusListIndex, ...others } = named;
    const facts = {
      ...(statusListIndex !== undefined && { statusListIndex }),
      ...others,
      ...(exp !== null && { exp }),
      token,
      reason: printable(reason),
    };
    try {
      await engine.revocation.revoke(asked);
    } catch (error) {
      record('failed', exchange, { ...facts, err: error });
      return errorAnswer(503, `the revocation could not be ${stateAfter(error)}`);
    }
    record('done', exchange, facts);
    return { status: 200, body: JSON.stringify({ revoked: true, ...named }) };
  };

  const usageBy = async (exchange: Exchange, receipt: string): Promise<Answer> => {
    try {
      const [ofVerify, ofGate] = await Promise.all([
        usageIn(engine.replays, receipt),
        usageIn(gate.replays, receipt),
      ]);
      record('listed', exchange, { receipt, token });
      return { status: 200, body: JSON.stringify({ receipt, verify: ofVerify, gate: ofGate }) };
    } catch (error) {
      record('failed', exchange, { receipt, token, err: error });
      return errorAnswer(503, 'the store of used invocations cannot tell; try again');
    }
  };

  return {
    /** Checks, in this order: whether it is configured, the token, the size, the body. */
    revoke: (exchange: Exchange, ticket: Ticket): Answering =>
      refusalOf(exchange) ?? revokeBy(exchange, ticket),
    /** Lists all revocations. Checks, in this order: whether it is configured, the token, that there is no body. */
    list: (exchange: Exchange): Answering => {
      const refused = readRefusalOf(exchange);
      if (refused !== null) return refused;
      record('listed', exchange, { token });
      return { status: 200, headers: { 'Content-Type': NDJSON_TYPE }, body: inPieces(linesOfAll()) };
    },
    /** Tells what was counted of a receipt. Checks the same, and the query at the end. */
    usage: (exchange: Exchange): Answering => {
      const refused = readRefusalOf(exchange);
      if (refused !== null) return refused;
      const { query } = exchange;
      const [, hex] = /^receipt=sha256(?::|%3[Aa])([\da-f]{64})$/.exec(query) ?? [];
      return hex === undefined
        ? malformed(exchange, `the query is ${show(query)}, expected receipt=sha256: and 64 hex digits`)
        : usageBy(exchange, `sha256:${hex}`);
    },
  };
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
function readRevocation(body: Buffer): RevocationRequest | string {
  const text = decodeUtf8(body);
  if (text === null) return 'the body is not UTF-8, expected JSON';
  const { value, defect } = parseStrictJson(text);
  if (defect) return `the body is not strict JSON: ${defect.message}`;
  const asked = readRevocationRequest(value);
  return typeof asked === 'string' ? `the body is not a revocation: ${asked}` : asked;
}

/** @returns `null` if nothing is counted there */
async function usageIn(store: ReplayStore | null, receipt: string): Promise<object | null> {
  if (store === null) return null;
  const { calls, microUsd } = (await store.usageOf(receipt)) ?? { calls: 0, microUsd: 0 };
  return { calls, total_cost_usd: toUsd(microUsd) };
}
