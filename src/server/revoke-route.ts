import { createHash, timingSafeEqual } from 'node:crypto';
import type { HttpRequest } from 'uWebSockets.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { isCount } from '../protocol/policy.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import { show } from '../verify/codes.js';
import type { Exchange } from './exchange.js';
import type { RouteContext } from './routes.js';

const BODY_BYTES = 1024;

/** `POST /admin/revoke`. Service document 4.5. */
export class RevokeRoute {
  readonly #context: RouteContext;
  readonly #tokenDigest: Buffer | null;

  constructor(context: RouteContext) {
    this.#context = context;
    const { drsAdminToken } = context.configuration;
    this.#tokenDigest = drsAdminToken === undefined ? null : sha256(drsAdminToken);
  }

  /** Checks in the order of decisions section 5: configured, authorised, size, body. */
  serve(exchange: Exchange, req: HttpRequest): void {
    if (this.#tokenDigest === null) {
      exchange.refuse(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
      return;
    }
    const [, token] = /^bearer +(\S+)$/i.exec(req.getHeader('authorization')) ?? [];
    // Digests have one length, so that not even the length of the token shows in the time this takes.
    if (token === undefined || !timingSafeEqual(sha256(token), this.#tokenDigest)) {
      exchange.refuse(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
      return;
    }
    exchange.readBody(BODY_BYTES, (body) => {
      if (body === null) {
        exchange.refuse(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
        return;
      }
      const index = readIndex(body);
      if (typeof index === 'string') exchange.refuse(400, index);
      else void this.#record(exchange, index);
    });
  }

  async #record(exchange: Exchange, index: number): Promise<void> {
    const { engine, log } = this.#context;
    try {
      await engine.revocation.revoke(index);
      log.info({ statusListIndex: index }, 'revoked');
      exchange.answer(200, JSON.stringify({ revoked: true, status_list_index: index }));
    } catch (error) {
      log.error({ err: error, statusListIndex: index }, 'a revocation could not be recorded');
      exchange.refuse(503, 'the revocation could not be recorded and is not in force; try again');
    }
  }
}

/** The index that a revocation asks for, or what is wrong with the request. */
function readIndex(body: Buffer): number | string {
  const text = decodeUtf8(body);
  if (text === null) return 'the body is not UTF-8, expected JSON';
  const { value, defect } = parseStrictJson(text);
  if (defect) return `the body is not strict JSON: ${defect.message}`;
  if (!isJsonObject(value)) return 'the body is not an object, expected { "status_list_index": <integer> }';
  const index = Object.hasOwn(value, 'status_list_index') ? value['status_list_index'] : undefined;
  return isCount(index) ? index : `status_list_index is ${show(index)}, expected an integer from 0 to 2^53-1`;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
