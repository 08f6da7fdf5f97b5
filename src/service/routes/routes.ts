import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { clientAddressOf, type ProxyTrust } from '../http/client-address.js';
import { Exchange, type Answered, type ExchangeOwner } from '../http/exchange.js';
import type { HttpRequest, Wire } from '../http/front-end.js';
import {
  GateHead,
  gateProtocolOf,
  isForeignOrigin,
  readHead,
  type RequestHead,
} from '../http/request-head.js';
import { clientOf, type RateLimit } from '../load/rate-limit.js';
import type { Rejection } from '../observe/metrics/metrics.js';
import type { RouteContext } from './context.js';
import { routeTables, type Route, type Table } from './table.js';

// pino's number for the level `debug`.
const DEBUG = 20;

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

  /** @param tables what answers; default: the endpoints of the service */
  constructor(context: RouteContext, tables = routeTables(context)) {
    this.#context = context;
    this.bodyTimeoutMs = context.configuration.requestTimeoutSecs * 1000;
    const { busyPollMicrosecs, allowedOrigins } = context.configuration;
    this.#origins = new Set(allowedOrigins);
    this.#proxyTrust = context.configuration.trustProxy ?? null;
    this.#notesAddress = context.configuration.decisionLog !== undefined;
    // On a single core, polling would take time from the client or the workers.
    this.#busyPoll = openBusyPoll(availableParallelism() > 1 ? busyPollMicrosecs / 1000 : 0);
    const { service, internal, gateLimit } = tables;
    this.#routes = service;
    this.#internal = internal;
    this.gateLimit = gateLimit;
  }

  /** Number of requests without an answer. */
  get open(): number {
    return this.#open;
  }

  /** Whether every answer ends its connection. */
  get isLeaving(): boolean {
    return this.#context.admission.isLeaving;
  }

  /** Handles a request. Paths match exactly, except those of the gates, so no router is needed. */
  readonly handle = (wire: Wire, req: HttpRequest): void => this.#handle(this.#routes, wire, req);

  /** Handles a request to `METRICS_ADDR`. */
  readonly handleInternal = (wire: Wire, req: HttpRequest): void => this.#handle(this.#internal, wire, req);

  #handle({ routes, unknown }: Table, wire: Wire, req: HttpRequest): void {
    const path = req.getUrl();
    // Proxies append the caller's path to the gate's path.
    const route = routes.get(path) ?? routes.get(`/gate/${gateProtocolOf(path)}`) ?? unknown;
    const method = req.getCaseSensitiveMethod();
    const head = readHead(req, route.isProxied === true ? new GateHead() : undefined);
    this.#open++;
    this.#busyPoll.end();
    const exchange = new Exchange(wire, method === 'HEAD', head, route.endpoint, this);
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
    if (--this.#open === 0) this.#busyPoll.begin();
    if (!exchange.isBatch) this.#report(exchange);
  }

  lineAnswered(line: Answered): void {
    this.#report(line);
  }

  #report(answered: Answered): void {
    const { metrics, log, tracing } = this.#context;
    const { endpoint, startedAt, status, knownRequestId: requestId } = answered;
    const milliseconds = performance.now() - startedAt;
    metrics.countRequest(endpoint, status, milliseconds);
    if (log.levelVal <= DEBUG) {
      log.debug({ endpoint, status, milliseconds, ...(requestId === null ? {} : { requestId }) }, 'request');
    }
    tracing?.record(answered, milliseconds);
  }

  #serve(route: Route, method: string, exchange: Exchange, head: RequestHead, req: HttpRequest): void {
    if (head.framingFault !== null) {
      this.#countRejection(route, 'malformed');
      exchange.refuse(400, head.framingFault, { closes: true });
      return;
    }
    if (!route.isProxied && !route.isPage && isForeignOrigin(head, this.#origins)) {
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
      const allowed = route.methods.join(', ');
      const error = `method ${method} is not allowed here, expected ${allowed}`;
      exchange.refuse(405, error, { headers: { Allow: allowed } });
    } else if (route.takesQuery !== true && (req.getQuery() ?? '') !== '') {
      this.#countRejection(route, 'malformed');
      exchange.refuse(400, 'the request has a query, expected none');
    } else {
      route.serve(exchange, head, req);
    }
  }

  #countRejection({ endpoint }: Route, reason: Rejection): void {
    const { metrics } = this.#context;
    if (endpoint === 'verify') metrics.countRejection(reason);
    else if (endpoint === 'gate') metrics.gate.rejected(endpoint, reason);
  }

  #fail(exchange: Exchange, error: unknown): void {
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    exchange.refuse(500, 'internal');
  }
}

/** Keeps the event loop turning while no request is open. */
type BusyPoll = ReturnType<typeof openBusyPoll>;

/**
 * Keeps the event loop turning for some time after the last answer, since a wake-up takes as long as a verification. If
 * more than one spin in five sees no request, the next 16 are skipped, doubling up to 1,024.
 *
 * @param ms maximum time of one spin; 0 for none
 */
export function openBusyPoll(ms: number, now = () => performance.now(), defer: Defer = setImmediate) {
  let isTurning = false;
  let [until, credit, skips, left] = [0, 0, 16, 0];
  const turn = (): void => {
    if (now() < until) return void defer(turn);
    isTurning = false;
    if (until === 0) return;
    until = 0;
    credit -= 4;
    if (credit < 0) [credit, left, skips] = [0, skips, Math.min(1024, 2 * skips)];
  };
  return {
    /** No request is open any more. */
    begin(): void {
      if (ms === 0 || left-- > 0) return;
      until = now() + ms;
      if (!isTurning) defer(turn);
      isTurning = true;
    },
    /** A request has arrived. */
    end(): void {
      if (until === 0) return;
      until = 0;
      credit = Math.min(16, credit + 1);
      skips = 16;
    },
  };
}

type Defer = (turn: () => void) => unknown;
