import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { Engine } from '../../verifier/engine.js';
import { GATE_PROTOCOLS } from '../../gate/index.js';
import type { Admission } from '../load/admission.js';
import { BodyIntake } from '../http/body-intake.js';
import { openBusyPoll, type BusyPoll } from '../load/busy-poll.js';
import type { Configuration } from '../configuration/configuration.js';
import { Exchange, type ExchangeOwner } from '../http/exchange.js';
import { GateApiRoute } from './gate-api-route.js';
import type { GateDecider } from './gate-decider.js';
import { GateHead } from '../http/gate-head.js';
import { gateProtocolOf } from '../http/gate-path.js';
import { GateRoute } from './gate-route.js';
import type { HttpRequest, Wire } from '../http/front-end.js';
import type { Endpoint, Metrics } from '../observe/metrics.js';
import { OPENAPI_JSON } from './openapi.js';
import { isForeignOrigin } from '../http/origins.js';
import { clientAddressOf, type ProxyTrust } from '../http/client-address.js';
import { clientOf, RateLimit } from '../load/rate-limit.js';
import { readHead, type RequestHead } from '../http/request-head.js';
import type { Readiness } from './readiness.js';
import type { Rejection } from '../observe/rejections.js';
import { RevokeRoute } from './revoke-route.js';
import type { Tracing } from '../observe/tracing.js';
import type { VerdictLogs } from '../observe/verdict-logs.js';
import { VerifyRoute } from './verify-route.js';

interface Route {
  readonly endpoint: Endpoint;
  /** In lower case; empty if every method is allowed. */
  readonly methods: readonly string[];
  /** `null` if there is no limit. Each class of endpoints has its own limit, so that one cannot use up another's. */
  readonly rateLimit: RateLimit | null;
  /** Whether the headers belong to the request that a proxy asks about: those of {@link GateHead} are read, and the origin is its. */
  readonly isProxied?: true;
  readonly serve: (exchange: Exchange, req: HttpRequest, head: RequestHead) => void;
}

/** The routes of a listener, and the route for all other paths. */
interface Table {
  readonly routes: ReadonlyMap<string, Route>;
  readonly unknown: Route;
}

/** What the routes need. */
export interface RouteContext {
  readonly engine: Engine;
  readonly configuration: Configuration;
  readonly admission: Admission;
  readonly readiness: Pick<Readiness, 'reasons'>;
  readonly gate: GateDecider;
  /** The public key set of the gate as JSON; `null` if it does not sign. */
  readonly jwks: string | null;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly verdicts: VerdictLogs;
  /** `null` if no OpenTelemetry SDK is registered. */
  readonly tracing: Tracing | null;
  /** The text of `/metrics`. */
  readonly scrape: () => Promise<string>;
}

const CHAIN_IS_OFF =
  '/gate/chain is off, since it does not check the arguments of calls; set GATE_CHAIN_ONLY=/mcp/tools/call, or use /gate/mcp';
// pino's number for the level `debug`.
const DEBUG = 20;
const POST = ['post'] as const;
const READ = ['get', 'head'] as const;

/** The HTTP interface: dispatches requests to routes, after the checks that apply to all of them. */
export class Routes implements ExchangeOwner {
  readonly bodyTimeoutMs: number;
  /** The gate's rate limit, which its other transports share; `null` if there is none. */
  readonly gateLimit: RateLimit | null;
  readonly #context: RouteContext;
  readonly #routes: Table;
  readonly #internal: Table;
  readonly #origins: ReadonlySet<string>;
  readonly #busyPoll: BusyPoll;
  readonly #proxyTrust: ProxyTrust | null;
  readonly #notesAddress: boolean;
  #open = 0;

  constructor(context: RouteContext) {
    this.#context = context;
    this.bodyTimeoutMs = context.configuration.requestTimeoutSecs * 1000;
    const { rateLimitPerIp, rateLimitGlobal, busyPollMicrosecs, allowedOrigins } = context.configuration;
    this.#origins = new Set(allowedOrigins);
    this.#proxyTrust = context.configuration.trustProxy ?? null;
    this.#notesAddress = context.configuration.decisionLog !== undefined;
    // On a single core, polling would take time from the client or the workers.
    this.#busyPoll = openBusyPoll(availableParallelism() > 1 ? busyPollMicrosecs / 1000 : 0);
    const limit = () => {
      const rateLimit = new RateLimit(rateLimitPerIp, rateLimitGlobal);
      return rateLimit.isOn ? rateLimit : null;
    };
    const intake = new BodyIntake(context);
    const verify = new VerifyRoute(context, intake);
    const revoke = new RevokeRoute(context);
    const read = (endpoint: Endpoint, serve: (exchange: Exchange) => void): Route => ({
      endpoint,
      methods: READ,
      rateLimit: null,
      serve,
    });
    const { configuration, admission, gate } = context;
    const { maxBodyBytes, gateChainOnly, metricsAddr, adminOnMetricsAddr } = configuration;
    const tableOf = (routes: readonly (readonly [string, Route])[]): Table => {
      const paths = routes.map(([path]) => path);
      const gated = paths.filter((path) => path.startsWith('/gate/'));
      const proxies = gated.length > 0 ? ` (proxies ask ${gated.join(', ')})` : '';
      const error = `unknown path${proxies}; there are ${paths.filter((path) => !gated.includes(path)).join(', ')}`;
      const unknown: Route = {
        endpoint: 'other',
        methods: [],
        rateLimit: limit(),
        serve: (exchange) => exchange.refuse(404, error),
      };
      return { routes: new Map(routes), unknown };
    };
    const gateLimit = (this.gateLimit = limit());
    const api = new GateApiRoute(gate, admission, intake, maxBodyBytes, context.verdicts);
    const proxied = new GateRoute(gate, intake, maxBodyBytes, context.verdicts);
    const gates = GATE_PROTOCOLS.map((protocol): [string, Route] => [
      `/gate/${protocol}`,
      {
        endpoint: 'gate',
        methods: [],
        rateLimit: gateLimit,
        isProxied: true,
        serve:
          protocol === 'chain' && gateChainOnly === undefined
            ? (exchange) => exchange.refuse(404, CHAIN_IS_OFF)
            : (exchange, req, head) => proxied.serve(protocol, exchange, req, head),
      },
    ]);
    const verifying: [string, Route][] = [
      [
        '/verify',
        {
          endpoint: 'verify',
          methods: POST,
          rateLimit: limit(),
          serve: (exchange, _, head) => verify.serve(exchange, head),
        },
      ],
    ];
    const admin: [string, Route][] = [
      [
        '/admin/revoke',
        {
          endpoint: 'revoke',
          methods: POST,
          rateLimit: limit(),
          serve: (exchange, req, head) => revoke.serve(exchange, req, head),
        },
      ],
    ];
    const gateApi: [string, Route][] = [
      [
        '/v1/gate',
        {
          endpoint: 'gate',
          methods: POST,
          rateLimit: gateLimit,
          serve: (exchange, _, head) => api.serve(exchange, head),
        },
      ],
      ['/.well-known/jwks.json', read('jwks', (exchange) => this.#keys(exchange))],
      ...gates,
    ];
    const health: [string, Route][] = [
      ['/healthz', read('healthz', (exchange) => this.#health(exchange))],
      ['/readyz', read('readyz', (exchange) => this.#readiness(exchange))],
    ];
    const metrics: [string, Route][] = [['/metrics', read('metrics', (exchange) => this.#scrape(exchange))]];
    this.#routes = tableOf([
      ...verifying,
      ...gateApi,
      ...(adminOnMetricsAddr ? [] : admin),
      ...health,
      ...(metricsAddr === undefined ? metrics : []),
      ['/openapi.json', read('openapi', (exchange) => exchange.answer(200, OPENAPI_JSON))],
    ]);
    this.#internal = tableOf([...(adminOnMetricsAddr ? admin : []), ...health, ...metrics]);
  }

  /** Number of requests without an answer. */
  get open(): number {
    return this.#open;
  }

  /** Whether every answer ends its connection. */
  get isLeaving(): boolean {
    const { isLeaving, isReplaced } = this.#context.admission;
    return isLeaving || isReplaced;
  }

  /** Handles a request. Paths match exactly, except those of the gates, so no router is needed. */
  readonly handle = (wire: Wire, req: HttpRequest): void => this.#handle(this.#routes, wire, req);

  /** Handles a request to `METRICS_ADDR`. */
  readonly handleInternal = (wire: Wire, req: HttpRequest): void => this.#handle(this.#internal, wire, req);

  #handle({ routes, unknown }: Table, wire: Wire, req: HttpRequest): void {
    const path = req.getUrl();
    // Proxies append the caller's path to the gate's path.
    const route = routes.get(path) ?? routes.get(`/gate/${gateProtocolOf(path)}`) ?? unknown;
    const method = req.getMethod();
    const head = readHead(req, route.isProxied === true ? new GateHead() : undefined);
    this.#open++;
    this.#busyPoll.end();
    const exchange = new Exchange(wire, method === 'head', head, route.endpoint, this);
    if (this.#notesAddress) exchange.address = exchange.clientAddress;
    try {
      this.#serve(route, method, exchange, head, req);
    } catch (error) {
      this.#fail(exchange, error);
    }
  }

  clientAddress(peer: string, forwardedFor: string | null): string {
    return clientAddressOf(this.#proxyTrust, peer, forwardedFor);
  }

  ended(exchange: Exchange): void {
    const { metrics, log, tracing } = this.#context;
    const { endpoint, startedAt, status, knownRequestId: requestId } = exchange;
    const milliseconds = performance.now() - startedAt;
    if (--this.#open === 0) this.#busyPoll.begin();
    metrics.countRequest(endpoint, status, milliseconds);
    if (log.levelVal <= DEBUG) {
      log.debug({ endpoint, status, milliseconds, ...(requestId === null ? {} : { requestId }) }, 'request');
    }
    tracing?.record(exchange, milliseconds);
  }

  #serve(route: Route, method: string, exchange: Exchange, head: RequestHead, req: HttpRequest): void {
    if (head.framingFault !== null) {
      this.#countRejection(route, 'malformed');
      exchange.refuse(400, head.framingFault, { closes: true });
      return;
    }
    if (route.isProxied !== true && isForeignOrigin(head, this.#origins)) {
      this.#countRejection(route, 'foreign_origin');
      exchange.refuse(
        403,
        'requests of web pages are refused unless their origin is listed in ALLOWED_ORIGINS',
      );
      return;
    }
    const wait = route.rateLimit?.admit(clientOf(exchange.clientAddress)) ?? 0;
    if (wait > 0) {
      this.#countRejection(route, 'rate_limited');
      exchange.refuse(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    } else if (route.methods.length > 0 && !route.methods.includes(method)) {
      const allowed = route.methods.join(', ').toUpperCase();
      const error = `method ${method.toUpperCase()} is not allowed here, expected ${allowed}`;
      exchange.refuse(405, error, { headers: { Allow: allowed } });
    } else {
      route.serve(exchange, req, head);
    }
  }

  #countRejection({ endpoint }: Route, reason: Rejection): void {
    const { metrics } = this.#context;
    if (endpoint === 'verify') metrics.countRejection(reason);
    else if (endpoint === 'gate') metrics.gate.rejected(endpoint, reason);
  }

  #health(exchange: Exchange): void {
    if (this.#context.admission.isDraining)
      exchange.answer(503, '{"status":"shutting_down"}', { closes: true });
    else exchange.answer(200, '{"status":"ok"}');
  }

  #readiness(exchange: Exchange): void {
    const reasons = this.#context.readiness.reasons();
    const [reason] = reasons;
    if (reason === undefined) exchange.answer(200, '{"status":"ready"}');
    else exchange.answer(503, JSON.stringify({ status: 'not_ready', reason, reasons }));
  }

  #keys(exchange: Exchange): void {
    const { jwks } = this.#context;
    if (jwks !== null) exchange.answer(200, jwks);
    else exchange.refuse(404, 'contexts are not signed: set GATE_SIGNING_KEY');
  }

  #scrape(exchange: Exchange): void {
    const { registry } = this.#context.metrics;
    exchange.ignoreBody();
    const scrape = () => {
      this.#context.scrape().then(
        (text) => exchange.answer(200, text, { headers: { 'Content-Type': registry.contentType } }),
        (error: unknown) => this.#fail(exchange, error),
      );
    };
    // Deferred: one packet may hold thousands of pipelined requests, which would all be answered before anything else.
    setImmediate(scrape);
  }

  #fail(exchange: Exchange, error: unknown): void {
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    exchange.refuse(500, 'internal');
  }
}
