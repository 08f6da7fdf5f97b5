import type { Buffer } from 'node:buffer';
import { parseStrictJson } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { memberOf, readAsked, RevocationStoreError, toJson, type Asked } from '../../revocation/index.js';
import { answerTo } from '../http/judged-body.js';
import { refusal, type Answer, type Answering, type Incoming } from '../http/incoming.js';
import type { Ticket } from '../load/gatekeeper.js';
import type { AdminCall } from '../observe/logs/admin-log.js';
import { printable } from '../observe/logs/verdict-facts.js';
import type { AdminAccess } from './admin-access.js';
import type { RouteContext } from './context.js';

const BODY_BYTES = 1024;
const PIECE_CHARACTERS = 32 * 1024;

/** `POST /admin/revoke` and `GET /admin/revocations`. */
export class RevokeRoute {
  readonly #context: Pick<RouteContext, 'engine' | 'configuration'>;
  readonly #access: AdminAccess;

  constructor(context: Pick<RouteContext, 'engine' | 'configuration'>, access: AdminAccess) {
    this.#context = context;
    this.#access = access;
  }

  /** Checks, in this order: whether it is configured, the token, the size, the body. */
  readonly serve = (incoming: Incoming, ticket: Ticket): Answering =>
    this.#access.admit(incoming, (call) => this.#revoke(incoming, ticket, call));

  /** Checks whether it is configured, and the token. Then lists all revocations. */
  readonly list = (incoming: Incoming): Answering =>
    this.#access.admitBodiless(incoming, (call) => {
      this.#access.log.record('listed', call, { token: this.#access.tokenName });
      const headers = { 'Content-Type': 'application/x-ndjson' };
      return { status: 200, headers, body: this.#pieces() };
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
    const { log, tokenName: token } = this.#access;
    const body = await incoming.read(BODY_BYTES, ticket);
    if (body === 'gone') return null;
    if (typeof body === 'string') {
      log.record(body, call);
      if (body !== 'too_large') return answerTo(body, this.#context.configuration);
      return refusal(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    }
    const asked = readRevocation(body);
    if (typeof asked === 'string') {
      log.record('malformed', call);
      return refusal(400, asked);
    }
    const { target, reason, exp } = asked;
    const member = memberOf(target);
    const facts = {
      [member === 'status_list_index' ? 'statusListIndex' : member]: target,
      ...(exp !== null && { exp }),
      ...{ token, reason: printable(reason) },
    };
    try {
      await this.#context.engine.revocation.revoke(asked);
    } catch (error) {
      log.record('failed', call, { ...facts, err: error });
      return refusal(503, `the revocation could not be ${stateAfter(error)}`);
    }
    log.record('done', call, facts);
    return { status: 200, body: JSON.stringify({ revoked: true, [member]: target }) };
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
