import type { Buffer } from 'node:buffer';
import { decodeUtf8 } from '#platform';
import { parseStrictJson } from '../../protocol/json.js';
import { toUsd } from '../../protocol/money.js';
import { memberOf, readAsked, RevocationStoreError, toJson, type Asked } from '../../revocation/index.js';
import type { ReplayStore } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { NDJSON_TYPE, refusal, type Answer, type Answering, type Incoming } from '../http/incoming.js';
import { answerTo } from '../http/judged-body.js';
import type { Ticket } from '../load/gatekeeper.js';
import { printable } from '../observe/logs/verdict-logs.js';
import { AdminAccess, type AdminCall } from './admin-access.js';
import type { RouteContext } from './context.js';

const BODY_BYTES = 1024;
const PIECE_CHARACTERS = 32 * 1024;

/** `POST /admin/revoke`, `GET /admin/revocations` and `GET /admin/usage?receipt=sha256:…`. */
export class AdminRoutes {
  readonly #context: RouteContext;
  readonly #access: AdminAccess;

  constructor(context: RouteContext) {
    this.#context = context;
    this.#access = new AdminAccess(context);
  }

  /** Checks, in this order: whether it is configured, the token, the size, the body. */
  readonly revoke = (incoming: Incoming, ticket: Ticket): Answering =>
    this.#access.admit(incoming, (call) => this.#revoke(incoming, ticket, call));

  /** Lists all revocations. Checks, in this order: whether it is configured, the token, that there is no body. */
  readonly list = (incoming: Incoming): Answering =>
    this.#access.admitBodiless(incoming, (call) => {
      this.#access.record('listed', call, { token: this.#access.tokenName });
      return { status: 200, headers: { 'Content-Type': NDJSON_TYPE }, body: this.#pieces() };
    });

  /** Tells what was counted of a receipt. Checks the same, and the query at the end. */
  readonly usage = (incoming: Incoming): Answering =>
    this.#access.admitBodiless(incoming, (call) => {
      const query = incoming.query ?? '';
      const [, hex] = /^receipt=sha256(?::|%3[Aa])([\da-f]{64})$/.exec(query) ?? [];
      if (hex !== undefined) return this.#usage(call, `sha256:${hex}`);
      this.#access.record('malformed', call);
      return refusal(400, `the query is ${show(query)}, expected receipt=sha256: and 64 hex digits`);
    });

  *#pieces(): Generator<string, void> {
    let piece = '';
    for (const entry of this.#context.engine.revocation.store.entries.values()) {
      piece += `${toJson(entry)}\n`;
      if (piece.length < PIECE_CHARACTERS) continue;
      yield piece;
      piece = '';
    }
    if (piece !== '') yield piece;
  }

  async #revoke(incoming: Incoming, ticket: Ticket, call: AdminCall): Promise<Answer | null> {
    const access = this.#access;
    const body = await incoming.read(BODY_BYTES, ticket);
    if (body === 'gone') return null;
    if (typeof body === 'string') {
      access.record(body, call);
      if (body !== 'too_large') return answerTo(body, this.#context.configuration);
      return refusal(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    }
    const asked = readRevocation(body);
    if (typeof asked === 'string') {
      access.record('malformed', call);
      return refusal(400, asked);
    }
    const { target, reason, exp } = asked;
    const member = memberOf(target);
    const facts = {
      [member === 'status_list_index' ? 'statusListIndex' : member]: target,
      ...(exp !== null && { exp }),
      ...{ token: access.tokenName, reason: printable(reason) },
    };
    try {
      await this.#context.engine.revocation.revoke(asked);
    } catch (error) {
      access.record('failed', call, { ...facts, err: error });
      return refusal(503, `the revocation could not be ${stateAfter(error)}`);
    }
    access.record('done', call, facts);
    return { status: 200, body: JSON.stringify({ revoked: true, [member]: target }) };
  }

  async #usage(call: AdminCall, receipt: string): Promise<Answer> {
    const facts = { receipt, token: this.#access.tokenName };
    const { engine, gate } = this.#context;
    try {
      const stores = [engine.replays, gate.replays];
      const [ofVerify, ofGate] = await Promise.all(stores.map((store) => usageIn(store, receipt)));
      this.#access.record('listed', call, facts);
      return { status: 200, body: JSON.stringify({ receipt, verify: ofVerify, gate: ofGate }) };
    } catch (error) {
      this.#access.record('failed', call, { ...facts, err: error });
      return refusal(503, 'the store of used invocations cannot tell; try again');
    }
  }
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
