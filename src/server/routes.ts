import { createHash, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { isCount } from '../protocol/policy.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import type { Engine, Outcome } from '../verifier/engine.js';
import { toVerdictJson } from '../verifier/verdict.js';
import { show } from '../verify/codes.js';
import type { Configuration } from './configuration.js';
import { Exchange } from './exchange.js';
import type { Endpoint, Metrics, Rejection } from './metrics.js';
import { RateLimit } from './rate-limit.js';

const ADMIN_BODY_BYTES = 1024;

interface Route {
  readonly endpoint: Endpoint;
  readonly methods: readonly string[];
  /** Whether rate limits apply. */
  readonly isLimited: boolean;
  readonly serve: (exchange: Exchange, req: HttpRequest) => void;
}

/** What the routes work with. */
export interface RouteContext {
  readonly engine: Engine;
  readonly configuration: Configuration;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** The HTTP interface. Service document 4, decisions section 5. */
export class Routes {
  /** Once set, health and readiness fail and no new bundle is taken in. Owner: the service's shutdown. */
  isDraining = false;
  readonly #context: RouteContext;
  readonly #rateLimit: RateLimit;
  readonly #adminDigest: Buffer | null;
  #open = 0;
  #pending = 0;
  readonly #routes: ReadonlyMap<string, Route> = new Map<string, Route>([
    [
      '/verify',
      { endpoint: 'verify', methods: ['post'], isLimited: true, serve: (x, req) => this.#verify(x, req) },
    ],
    [
      '/admin/revoke',
      { endpoint: 'revoke', methods: ['post'], isLimited: true, serve: (x, req) => this.#revoke(x, req) },
    ],
    [
      '/healthz',
      { endpoint: 'healthz', methods: ['get', 'head'], isLimited: false, serve: (x) => this.#health(x) },
    ],
    [
      '/readyz',
      { endpoint: 'readyz', methods: ['get', 'head'], isLimited: false, serve: (x) => this.#readiness(x) },
    ],
    [
      '/metrics',
      { endpoint: 'metrics', methods: ['get', 'head'], isLimited: false, serve: (x) => this.#scrape(x) },
    ],
  ]);
  readonly #unknown: Route = {
    endpoint: 'other',
    methods: [],
    isLimited: true,
    serve: (exchange) =>
      exchange.refuse(404, `unknown path; there are ${[...this.#routes.keys()].join(', ')}`),
  };

  constructor(context: RouteContext) {
    this.#context = context;
    const { rateLimitPerIp, rateLimitGlobal, drsAdminToken } = context.configuration;
    this.#rateLimit = new RateLimit(rateLimitPerIp, rateLimitGlobal);
    this.#adminDigest = drsAdminToken === undefined ? null : sha256(drsAdminToken);
  }

  /** Requests that have no answer yet. */
  get open(): number {
    return this.#open;
  }

  /** Requests that wait for a verdict. */
  get pending(): number {
    return this.#pending;
  }

  /** Handles any request. Paths match exactly, so no router is needed. */
  readonly handle = (res: HttpResponse, req: HttpRequest): void => {
    const route = this.#routes.get(req.getUrl()) ?? this.#unknown;
    const method = req.getMethod();
    this.#open++;
    const exchange = new Exchange(res, method === 'head', ({ startedAt }) => {
      this.#open--;
      this.#context.metrics.observeDuration(route.endpoint, performance.now() - startedAt);
    });
    try {
      const wait = route.isLimited && this.#rateLimit.isOn ? this.#rateLimit.admit(addressOf(res)) : 0;
      if (wait > 0) {
        if (route.endpoint === 'verify') this.#context.metrics.countRejection('rate_limited');
        exchange.refuse(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
      } else if (route !== this.#unknown && !route.methods.includes(method)) {
        const allowed = route.methods.join(', ').toUpperCase();
        const error = `method ${method.toUpperCase()} is not allowed here, expected ${allowed}`;
        exchange.refuse(405, error, { headers: { Allow: allowed } });
      } else {
        route.serve(exchange, req);
      }
    } catch (error) {
      this.#fail(exchange, error);
    }
  };

  #verify(exchange: Exchange, req: HttpRequest): void {
    const { maxBodyBytes } = this.#context.configuration;
    if (this.isDraining) {
      this.#reject(exchange, 'shutting_down', 503, 'shutting down', { 'Retry-After': '1' }, true);
      return;
    }
    const tooLarge = () =>
      this.#reject(
        exchange,
        'too_large',
        413,
        `the body is larger than MAX_BODY_BYTES (${maxBodyBytes})`,
        {},
        true,
      );
    if (Number(req.getHeader('content-length')) > maxBodyBytes) {
      tooLarge();
      return;
    }
    exchange.readBody(maxBodyBytes, (body) => {
      try {
        if (body === null) tooLarge();
        else this.#judge(exchange, body);
      } catch (error) {
        this.#fail(exchange, error);
      }
    });
  }

  #judge(exchange: Exchange, body: Buffer): void {
    const { engine, configuration, metrics } = this.#context;
    if (this.#pending >= configuration.maxPending) {
      this.#reject(exchange, 'overloaded', 503, 'overloaded', { 'Retry-After': '1' });
      return;
    }
    const text = decodeUtf8(body);
    if (text === null) {
      this.#reject(exchange, 'malformed', 400, 'the body is not UTF-8, expected JSON (RFC 8259)');
      return;
    }
    let bundle: unknown;
    try {
      bundle = JSON.parse(text);
    } catch (error) {
      this.#reject(exchange, 'malformed', 400, (error as SyntaxError).message);
      return;
    }
    this.#pending++;
    engine.judge(
      {
        bundle,
        body:
          isJsonObject(bundle) && Object.hasOwn(bundle, 'body') ? { kind: 'member', bundleText: text } : null,
      },
      {
        deliver: (outcome: Outcome) => {
          this.#pending--;
          metrics.countOutcome(outcome);
          exchange.answer(200, toVerdictJson(outcome));
        },
        abandon: (error: Error) => {
          this.#pending--;
          this.#fail(exchange, error);
        },
      },
    );
  }

  #revoke(exchange: Exchange, req: HttpRequest): void {
    if (this.#adminDigest === null) {
      exchange.refuse(503, 'the admin endpoint is not configured: DRS_ADMIN_TOKEN must be set');
      return;
    }
    const [, token] = /^bearer +(\S+)$/i.exec(req.getHeader('authorization')) ?? [];
    // Digests have one length, so that not even the length of the token shows in the time this takes.
    if (token === undefined || !timingSafeEqual(sha256(token), this.#adminDigest)) {
      exchange.refuse(401, 'unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } });
      return;
    }
    exchange.readBody(ADMIN_BODY_BYTES, (body) => {
      if (body === null) {
        exchange.refuse(413, `the body is larger than ${ADMIN_BODY_BYTES} bytes`, { closes: true });
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

  #health(exchange: Exchange): void {
    if (this.isDraining) exchange.answer(503, '{"status":"shutting_down"}', { closes: true });
    else exchange.answer(200, '{"status":"ok"}');
  }

  #readiness(exchange: Exchange): void {
    const reason = this.isDraining
      ? 'shutting_down'
      : this.#context.engine.revocation.isReady()
        ? null
        : 'status_list_not_fetched';
    if (reason === null) exchange.answer(200, '{"status":"ready"}');
    else exchange.answer(503, JSON.stringify({ status: 'not_ready', reason }));
  }

  #scrape(exchange: Exchange): void {
    const { registry } = this.#context.metrics;
    registry.metrics().then(
      (text) => exchange.answer(200, text, { headers: { 'Content-Type': registry.contentType } }),
      (error: unknown) => this.#fail(exchange, error),
    );
  }

  #reject(
    exchange: Exchange,
    reason: Rejection,
    status: number,
    error: string,
    headers: Record<string, string> = {},
    closes = false,
  ): void {
    this.#context.metrics.countRejection(reason);
    exchange.refuse(status, error, { headers, closes });
  }

  #fail(exchange: Exchange, error: unknown): void {
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    this.#reject(exchange, 'internal', 500, 'internal');
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
  if (isCount(index)) return index;
  return `status_list_index is ${show(index)}, expected an integer from 0 to 2^53-1`;
}

function addressOf(res: HttpResponse): string {
  return Buffer.from(res.getRemoteAddress()).toString('latin1');
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
