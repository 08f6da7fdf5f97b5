import { parseStrictJson } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { memberOf, readAsked, RevocationStoreError, toJson, type Asked } from '../../revocation/index.js';
import type { AdminCall } from '../observe/logs/admin-log.js';
import { refuseBody } from '../http/body-intake.js';
import type { BodyFault } from '../http/body-reader.js';
import type { Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import type { RequestHead } from '../http/request-head.js';
import type { AdminAccess } from './admin-access.js';
import type { RouteContext } from './context.js';
import { printable } from '../observe/logs/verdict-facts.js';

const BODY_BYTES = 1024;
const PIECE_CHARACTERS = 32 * 1024;

/** `POST /admin/revoke` and `GET /admin/revocations`. */
export class RevokeRoute {
  readonly #context: RouteContext;
  readonly #access: AdminAccess;

  constructor(context: RouteContext, access: AdminAccess) {
    this.#context = context;
    this.#access = access;
  }

  /** Checks, in this order: whether it is configured, the token, the size, the body. */
  readonly serve = (exchange: Exchange, { contentLength }: RequestHead, req: HttpRequest): void => {
    const call = this.#access.admit(exchange, req);
    if (call === null) return;
    const { admission, configuration } = this.#context;
    const rules = {
      memory: admission.memory,
      maxBytes: BODY_BYTES,
      announcedBytes: contentLength,
      timeoutMs: configuration.requestTimeoutSecs * 1000,
    };
    if (contentLength > BODY_BYTES) this.#refuseBody(exchange, call, 'too_large');
    else
      exchange.readBody(rules, (body) => {
        if (typeof body === 'string') this.#refuseBody(exchange, call, body);
        else this.#revoke(exchange, call, body);
      });
  };

  /** Checks whether it is configured, and the token. Then lists all revocations. */
  readonly list = (exchange: Exchange, { hasBody }: RequestHead, req: HttpRequest): void => {
    const call = this.#access.admit(exchange, req);
    if (call === null) return;
    if (hasBody) {
      this.#access.log.record('malformed', call);
      exchange.refuse(400, 'the request has a body, expected none');
      return;
    }
    this.#access.log.record('listed', call, { token: this.#access.tokenName });
    exchange.stream('application/x-ndjson', this.#pieces());
  };

  *#pieces(): Generator<string, void> {
    let piece = '';
    for (const entry of this.#context.engine.revocation.list()) {
      piece += `${toJson(entry)}\n`;
      if (piece.length < PIECE_CHARACTERS) continue;
      yield piece;
      piece = '';
    }
    if (piece !== '') yield piece;
  }

  #refuseBody(exchange: Exchange, call: AdminCall, fault: BodyFault): void {
    const { configuration } = this.#context;
    this.#access.log.record(fault, call);
    if (fault === 'too_large')
      exchange.refuse(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    else refuseBody(exchange, fault, configuration);
  }

  #revoke(exchange: Exchange, call: AdminCall, body: Buffer): void {
    const asked = readBody(body);
    exchange.releaseBody();
    if (typeof asked === 'string') {
      this.#access.log.record('malformed', call);
      exchange.refuse(400, asked);
    } else void this.#record(exchange, call, asked);
  }

  async #record(exchange: Exchange, call: AdminCall, asked: Asked): Promise<void> {
    const { target, reason, exp } = asked;
    const member = memberOf(target);
    const facts = {
      [member === 'status_list_index' ? 'statusListIndex' : member]: target,
      ...(exp !== null && { exp }),
      ...{ token: this.#access.tokenName, reason: printable(reason) },
    };
    try {
      await this.#context.engine.revocation.revoke(asked);
    } catch (error) {
      this.#access.log.record('failed', call, { ...facts, err: error });
      exchange.refuse(503, `the revocation could not be ${stateAfter(error)}`);
      return;
    }
    this.#access.log.record('done', call, facts);
    exchange.answer(200, JSON.stringify({ revoked: true, [member]: target }));
  }
}

function stateAfter(error: unknown): string {
  const fault = error instanceof RevocationStoreError ? error.fault : null;
  if (fault === 'unconfirmed') return 'confirmed; it may be in force, and may be lost; try again';
  if (fault === 'full') return `recorded and is not in force: ${(error as Error).message}`;
  return 'recorded and is not in force; try again';
}

/** Returns what to revoke, or an error message. */
function readBody(body: Buffer): Asked | string {
  const text = decodeUtf8(body);
  if (text === null) return 'the body is not UTF-8, expected JSON';
  const { value, defect } = parseStrictJson(text);
  if (defect) return `the body is not strict JSON: ${defect.message}`;
  const asked = readAsked(value);
  return typeof asked === 'string' ? `the body is not a revocation: ${asked}` : asked;
}
