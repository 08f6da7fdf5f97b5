import { isJsonObject, parseStrictJson } from '../../protocol/json.js';
import { isCount } from '../../protocol/policy.js';
import { decodeUtf8 } from '#platform';
import { RevocationStoreError } from '../../revocation/index.js';
import { show } from '../../verify/codes.js';
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
const MAX_REASON_LENGTH = 200;

/** What a call asks for. */
interface Revocation {
  readonly index: number;
  /** For the log; `null` if the caller gave none. */
  readonly reason: string | null;
}

/** `POST /admin/revoke`. */
export class RevokeRoute {
  readonly #context: RouteContext;
  readonly #access: AdminAccess;

  constructor(context: RouteContext, access: AdminAccess) {
    this.#context = context;
    this.#access = access;
  }

  /** Checks, in this order: whether it is configured, the token, the size, the body. */
  serve(exchange: Exchange, req: HttpRequest, { contentLength }: RequestHead): void {
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
  }

  #refuseBody(exchange: Exchange, call: AdminCall, fault: BodyFault): void {
    const { configuration } = this.#context;
    this.#access.log.record(fault, call);
    if (fault === 'too_large')
      exchange.refuse(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    else refuseBody(exchange, fault, configuration);
  }

  #revoke(exchange: Exchange, call: AdminCall, body: Buffer): void {
    const asked = readRevocation(body);
    exchange.releaseBody();
    if (typeof asked === 'string') {
      this.#access.log.record('malformed', call);
      exchange.refuse(400, asked);
    } else void this.#record(exchange, call, asked);
  }

  async #record(exchange: Exchange, call: AdminCall, { index, reason }: Revocation): Promise<void> {
    const facts = { statusListIndex: index, token: this.#access.tokenName, reason: printable(reason) };
    try {
      await this.#context.engine.revocation.revoke(index);
    } catch (error) {
      this.#access.log.record('failed', call, { ...facts, err: error });
      const isUnclear = error instanceof RevocationStoreError && error.fault === 'unconfirmed';
      const state = isUnclear
        ? 'confirmed; it may be in force, and may be lost'
        : 'recorded and is not in force';
      exchange.refuse(503, `the revocation could not be ${state}; try again`);
      return;
    }
    this.#access.log.record('done', call, facts);
    exchange.answer(200, JSON.stringify({ revoked: true, status_list_index: index }));
  }
}

/** Returns what to revoke, or an error message. */
function readRevocation(body: Buffer): Revocation | string {
  const text = decodeUtf8(body);
  if (text === null) return 'the body is not UTF-8, expected JSON';
  const { value, defect } = parseStrictJson(text);
  if (defect) return `the body is not strict JSON: ${defect.message}`;
  if (!isJsonObject(value)) return 'the body is not an object, expected { "status_list_index": <integer> }';
  const index = Object.hasOwn(value, 'status_list_index') ? value['status_list_index'] : undefined;
  if (!isCount(index)) return `status_list_index is ${show(index)}, expected an integer from 0 to 2^53-1`;
  const reason = Object.hasOwn(value, 'reason') ? value['reason'] : null;
  if (reason === null) return { index, reason };
  if (typeof reason !== 'string' || reason.length > MAX_REASON_LENGTH)
    return `reason is ${show(reason)}, expected a string of up to ${MAX_REASON_LENGTH} characters`;
  return { index, reason };
}
