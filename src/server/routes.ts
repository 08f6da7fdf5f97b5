import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { Engine } from '../verifier/engine.js';
import { BusyPoll } from './busy-poll.js';
import type { Configuration } from './configuration.js';
import { Exchange } from './exchange.js';
import type { Endpoint, Metrics } from './metrics.js';
import { RateLimit } from './rate-limit.js';
import { RevokeRoute } from './revoke-route.js';
import { VerifyRoute } from './verify-route.js';

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

const READ = ['get', 'head'] as const;

/** The HTTP interface: which request goes where, and what holds for all of them. Service document 4, decisions section 5. */
export class Routes {
  /** Once set, health and readiness fail and no new bundle is taken in. Owner: the service's shutdown. */
  isDraining = false;
  readonly #context: RouteContext;
  readonly #rateLimit: RateLimit;
  readonly #verify: VerifyRoute;
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #unknown: Route;
  readonly #busyPoll: BusyPoll;
  #open = 0;

  constructor(context: RouteContext) {
    this.#context = context;
    const { rateLimitPerIp, rateLimitGlobal, busyPollMicrosecs } = context.configuration;
    this.#rateLimit = new RateLimit(rateLimitPerIp, rateLimitGlobal);
    // A single core is the client's, too, or the workers'.
    this.#busyPoll = new BusyPoll(availableParallelism() > 1 ? busyPollMicrosecs : 0);
    const verify = new VerifyRoute(context);
    const revoke = new RevokeRoute(context);
    this.#verify = verify;
    this.#routes = new Map<string, Route>([
      [
        '/verify',
        {
          endpoint: 'verify',
          methods: ['post'],
          isLimited: true,
          serve: (exchange, req) =>
            this.isDraining ? verify.turnAway(exchange) : verify.serve(exchange, req),
        },
      ],
      [
        '/admin/revoke',
        {
          endpoint: 'revoke',
          methods: ['post'],
          isLimited: true,
          serve: (exchange, req) => revoke.serve(exchange, req),
        },
      ],
      [
        '/healthz',
        { endpoint: 'healthz', methods: READ, isLimited: false, serve: (exchange) => this.#health(exchange) },
      ],
      [
        '/readyz',
        {
          endpoint: 'readyz',
          methods: READ,
          isLimited: false,
          serve: (exchange) => this.#readiness(exchange),
        },
      ],
      [
        '/metrics',
        { endpoint: 'metrics', methods: READ, isLimited: false, serve: (exchange) => this.#scrape(exchange) },
      ],
    ]);
    const unknown = `unknown path; there are ${[...this.#routes.keys()].join(', ')}`;
    this.#unknown = {
      endpoint: 'other',
      methods: [],
      isLimited: true,
      serve: (exchange) => exchange.refuse(404, unknown),
    };
  }

  /** Requests that have no answer yet. */
  get open(): number {
    return this.#open;
  }

  /** Requests that wait for a verdict. */
  get pending(): number {
    return this.#verify.pending;
  }

  /** Handles any request. Paths match exactly, so no router is needed. */
  readonly handle = (res: HttpResponse, req: HttpRequest): void => {
    const route = this.#routes.get(req.getUrl()) ?? this.#unknown;
    const method = req.getMethod();
    this.#open++;
    this.#busyPoll.end();
    const exchange = new Exchange(res, method === 'head', ({ startedAt }) => {
      if (--this.#open === 0) this.#busyPoll.begin();
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

  #health(exchange: Exchange): void {
    if (this.isDraining) exchange.answer(503, '{"status":"shutting_down"}', { closes: true });
    else exchange.answer(200, '{"status":"ok"}');
  }

  #readiness(exchange: Exchange): void {
    const reason = this.isDraining ? 'shutting_down' : this.#context.engine.revocation.unreadyReason;
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

  #fail(exchange: Exchange, error: unknown): void {
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    exchange.refuse(500, 'internal');
  }
}

function addressOf(res: HttpResponse): string {
  return Buffer.from(res.getRemoteAddress()).toString('latin1');
}
