import { createHash, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import { clientOf } from '../load/rate-limit.js';
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
   * @returns `null` if the request was refused
   */
  admit(exchange: Exchange, req: HttpRequest): AdminCall | null {
    const call: AdminCall = { address: exchange.clientAddress, requestId: exchange.requestId };
    if (this.#tokenDigest === null) {
      this.log.record('not_configured', call);
      exchange.refuse(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
      return null;
    }
    const [, token] = /^bearer +(\S+)$/i.exec(req.getHeader('authorization')) ?? [];
    // Digests have a fixed length, so the time of the comparison does not even reveal the token's length.
    if (token !== undefined && timingSafeEqual(sha256(token), this.#tokenDigest)) return call;
    this.#refuseStranger(exchange, call);
    return null;
  }

  #refuseStranger(exchange: Exchange, call: AdminCall): void {
    const wait = this.log.admitFailure(clientOf(call.address));
    if (wait > 0) {
      this.log.record('rate_limited', call);
      exchange.refuse(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    } else {
      this.log.record('unauthorized', call);
      exchange.refuse(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
    }
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
