import type { Buffer } from 'node:buffer';
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import type { RouteContext } from '../core.js';
import { SMALL_BYTES, Ticket, type Gatekeeper } from '../load/gatekeeper.js';
import type { RateLimit } from '../load/rate-limit.js';
import type { Endpoint } from '../observe/metrics/metrics.js';
import { clientAddressOf, clientOf, type ProxyTrust } from './client-address.js';
import type { SentHead, Wire } from './front-end.js';
import { gateProtocolOf } from './proxied.js';
import { newRequestId, readRequestId } from './logged-request.js';
import {
  CLOSE,
  Exchange,
  errorAnswer,
  type Answer,
  type Answered,
  type Answering,
  type Asker,
  type ExchangeOwner,
} from './exchange.js';
import type { BodyHandler } from './body-handler.js';

// pino's number for the level `debug`.
const DEBUG = 20;

type Serve = (exchange: Exchange, ticket: Ticket) => Answering;

/** What answers the requests to a path. */
export interface Route {
  readonly endpoint: Endpoint;
  /** Empty if every method is allowed. */
  readonly methods: readonly string[];
  /** `null` if there is no limit. Each class of endpoints has its own limit, so that one cannot use up another's. */
  readonly rateLimit: RateLimit | null;
  /** What answers: a handler of bodies, whose turn each request waits for, or else a function. That reads the body before it waits for anything. */
  readonly serve: BodyHandler<Exchange> | Serve;
  /** What answers batches of bodies; left out, they are bodies like others. */
  readonly batches?: { readonly maxBytes: number; readonly answer: Serve };
  /** Whether web pages may call that are not listed: the origin is that of the request a proxy asks about, or it is a page that does nothing. */
  readonly takesAnyOrigin?: true;
  /** Whether a query may come: it is read, or the answer is the same without it. Else nobody may think that it counts. */
  readonly takesQuery?: boolean;
}

/** The routes of a listener by path, and the route for all other paths. */
export interface Table {
  readonly routes: ReadonlyMap<string, Route>;
  readonly unknown: Route;
  /** Stands for the address of peers, where they have none. */
  readonly peer?: string | undefined;
}

/** What a {@link Server} needs. */
export interface ServerContext extends Pick<
  RouteContext,
  'configuration' | 'gatekeeper' | 'metrics' | 'log' | 'tracing'
> {
  /** The names by which it may be called: a page whose name was made to lead here has another. Left out: any. */
  readonly hosts?: ReadonlySet<string> | null | undefined;
  /** Names variables as those who run this know them. */
  readonly rename?: ((text: string) => string) | undefined;
}

const INTERNAL = errorAnswer(500, 'internal');
const FOREIGN = errorAnswer(403, 'requests of web pages are refused unless ALLOWED_ORIGINS has their origin');

/** Serves the requests of all HTTP listeners: the way of each is {@link Server.serve}. */
export class Server implements ExchangeOwner {
  /** Number of requests whose answer is not sent. Only {@link serve} writes it. */
  open = 0;
  readonly bodyTimeoutMs: number;
  readonly gatekeeper: Gatekeeper;
  readonly #context: ServerContext;
  readonly #origins: ReadonlySet<string>;
  readonly #busyPoll: BusyPoll;
  readonly #proxyTrust: ProxyTrust | null;
  readonly #notesAddress: boolean;

  constructor(context: ServerContext) {
    this.#context = context;
    const { configuration } = context;
    this.gatekeeper = context.gatekeeper;
    this.bodyTimeoutMs = configuration.requestTimeoutSecs * 1000;
    this.#origins = new Set(configuration.allowedOrigins);
    this.#proxyTrust = configuration.trustProxy ?? null;
    this.#notesAddress = configuration.decisionLog !== undefined;
    // On a single core, polling would take time from the client or the workers.
    this.#busyPoll = openBusyPoll(availableParallelism() > 1 ? configuration.busyPollMicrosecs / 1000 : 0);
  }

  /** Serves the requests to a listener with these routes. Paths match exactly, except those of the gates, so no router is needed. */
  handlerOf(table: Table) {
    return (wire: Wire, head: SentHead): void => {
      if (!this.gatekeeper.isRefusing || !this.#refusesAtOnce(table, wire, head))
        void this.serve(table, wire, head);
    };
  }

  /**
   * Refuses a request of a client whose callers give up, if as many of theirs wait as may: before anything else of it is looked at, and
   * in the same turn of the event loop, since what is waited for by nobody costs the others most.
   */
  #refusesAtOnce(table: Table, wire: Wire, head: SentHead): boolean {
    const { headers, method } = head;
    const { endpoint, serve: handler } = findRoute(table, head).route;
    // A longer body may still be sent when the answer comes, and one of unknown length, too: they are read first.
    const length = Number(headers.get('content-length') ?? NaN);
    const isShort = length <= SMALL_BYTES && !headers.has('transfer-encoding');
    if (typeof handler === 'function' || !isShort) return false;
    const forwardedFor = headers.get('x-forwarded-for')?.replaceAll('\n', ',') ?? null;
    const client = clientOf(this.clientAddress(table.peer ?? wire.remoteAddress(), forwardedFor));
    if (!this.gatekeeper.refusesAtOnce(client)) return false;
    const { metrics, rename = (text: string) => text } = this.#context;
    const { status, body, headers: own } = handler.overloaded();
    const id = headers.get('x-request-id');
    const all = id === undefined ? own : { ...own, 'X-Request-Id': readRequestId(id) ?? newRequestId() };
    const closes = this.gatekeeper.isLeaving || CLOSE.test(headers.get('connection') ?? '');
    // What closes is sent a turn later.
    wire.onAborted(() => {});
    wire.write({ status, body: rename(body), headers: all, isHead: method === 'HEAD', closes });
    metrics.countRequest(endpoint, status, 0);
    return true;
  }

  /** The way of every request: origin, limit, method, enter, route, write, count, log, trace. Never rejects. */
  async serve(table: Table, wire: Wire, head: SentHead): Promise<void> {
    const { log, rename } = this.#context;
    this.open++;
    this.#busyPoll.end();
    const { path, route } = findRoute(table, head);
    const exchange = new Exchange(wire, head, path, route.endpoint, this);
    exchange.peer = table.peer;
    let ticket: Ticket | null = null;
    let sent: Promise<void> | null = null;
    try {
      if (this.#notesAddress) exchange.address = exchange.clientAddress;
      const admitted = this.#admit(route, exchange);
      if (admitted instanceof Ticket) exchange.ticket = ticket = admitted;
      let answering: Answering = null;
      if (!(admitted instanceof Ticket)) answering = admitted;
      else if (!exchange.isGone) answering = answerOver(route, exchange, admitted);
      exchange.ignoreBody();
      let answer = await answering;
      if (rename && typeof answer?.body === 'string') answer = { ...answer, body: rename(answer.body) };
      if (answer !== null) sent = exchange.answer(answer);
    } catch (error) {
      log.error({ err: error }, 'a request failed inside the service');
      exchange.ignoreBody();
      sent = exchange.answer(INTERNAL);
    } finally {
      if (!exchange.isBatch) this.report(exchange);
      // What is held, or comes in pieces, is not sent yet.
      if (sent !== null) await sent;
      ticket?.release();
      if (--this.open === 0) this.#busyPoll.begin();
    }
  }

  /** Admits a request, or says why not. */
  #admit(route: Route, exchange: Exchange): Ticket | Answering {
    const { gatekeeper } = this;
    const handler = typeof route.serve === 'function' ? null : route.serve;
    // It takes no token of a limit. `node:http` reads that a client has gone before the service has its request.
    if (exchange.isGone) {
      if (handler !== null) gatekeeper.noteGivenUp(exchange);
      return gatekeeper.ticketWithoutLimits(exchange);
    }
    const refusal = this.#refusalOf(route, exchange) ?? handler?.refusalOf?.(exchange) ?? null;
    if (refusal !== null) return refusal;
    if (handler === null) return gatekeeper.ticketWithoutLimits(exchange);
    const { maxBytes } = (exchange.hasLines ? route.batches : undefined) ?? handler;
    // One that is too large is refused when it is read.
    const announced = exchange.contentLength > maxBytes ? 0 : exchange.contentLength;
    if (gatekeeper.isDraining) return handler.refuse(exchange, 'shutting_down');
    return gatekeeper.enter(exchange, announced) ?? handler.refuse(exchange, 'overloaded');
  }

  clientAddress(peer: string, forwardedFor: string | null): string {
    return clientAddressOf(this.#proxyTrust, peer, forwardedFor);
  }

  report(answered: Answered): void {
    const { metrics, log, tracing } = this.#context;
    const { endpoint, startedAt, status, knownRequestId: requestId } = answered;
    const milliseconds = performance.now() - startedAt;
    metrics.countRequest(endpoint, status, milliseconds);
    if (log.levelVal <= DEBUG) {
      log.debug({ endpoint, status, milliseconds, ...(requestId === null ? {} : { requestId }) }, 'request');
    }
    tracing?.record(answered, milliseconds);
  }

  /** Why a request is refused before its route; `null` if it is not. */
  #refusalOf(route: Route, exchange: Exchange): Answer | null {
    const { hosts = null, configuration, metrics } = this.#context;
    const fault = exchange.framingDefect;
    if (fault !== null) {
      metrics.countRejection(route.endpoint, 'malformed');
      return errorAnswer(400, fault, { closes: true });
    }
    const host = hosts === null ? '' : (exchange.header('host') ?? '').toLowerCase();
    if (hosts !== null && !hosts.has(host.replace(/:\d+$/, ''))) {
      metrics.countRejection(route.endpoint, 'foreign_origin');
      const expected = [...hosts].join(' or ');
      return errorAnswer(403, `the Host of the request is ${JSON.stringify(host)}, expected ${expected}`);
    }
    // Of a listener that knows its names, also its own pages.
    const scheme = configuration.tlsCertFile === undefined ? 'http' : 'https';
    const isOwn = hosts !== null && exchange.header('origin')?.toLowerCase() === `${scheme}://${host}`;
    if (!route.takesAnyOrigin && !isOwn && exchange.isForeign(this.#origins)) {
      metrics.countRejection(route.endpoint, 'foreign_origin');
      return FOREIGN;
    }
    const wait = route.rateLimit?.admit(exchange.client) ?? 0;
    if (wait > 0) {
      metrics.countRejection(route.endpoint, 'rate_limited');
      return errorAnswer(429, 'rate_limited', { headers: { 'Retry-After': String(Math.ceil(wait)) } });
    }
    if (route.methods.length > 0 && !route.methods.includes(exchange.method)) {
      const allowed = route.methods.join(', ');
      const error = `method ${exchange.method} is not allowed here, expected ${allowed}`;
      return errorAnswer(405, error, { headers: { Allow: allowed } });
    }
    if (route.takesQuery === true || exchange.query === '') return null;
    metrics.countRejection(route.endpoint, 'malformed');
    return errorAnswer(400, 'the request has a query, expected none');
  }
}

/** The route of a request, and its path without the query. */
function findRoute({ routes, unknown }: Table, { target }: SentHead): { path: string; route: Route } {
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const known = routes.get(path);
  if (known !== undefined) return { path, route: known };
  // Proxies append the caller's path to the gate's path; that of a question has its handle.
  const below = path.startsWith('/approve/') ? '/approve' : `/gate/${gateProtocolOf(path)}`;
  return { path, route: routes.get(below) ?? unknown };
}

/** Has the route of an admitted request answer it: of a body that it reads, when its turn comes. */
async function answerOver({ serve, batches }: Route, exchange: Exchange, ticket: Ticket) {
  if (batches !== undefined && exchange.hasLines) return batches.answer(exchange, ticket);
  if (typeof serve === 'function') return serve(exchange, ticket);
  const body = await exchange.read(serve.maxBytes, ticket);
  if (body === 'gone') return null;
  if (typeof body === 'string') return serve.refuse(exchange, body);
  return handleInTurn(exchange, body, ticket, serve);
}

/** Has a body judged when its turn comes, unless its client has gone. */
export function handleInTurn<One extends Asker>(
  asked: One,
  body: Buffer,
  ticket: Ticket,
  handler: BodyHandler<One>,
) {
  return ticket.takeTurn(body.length, async (isRefused) => {
    if (asked.isOver) return null;
    return isRefused ? handler.refuse(asked, 'overloaded') : handler.answer(asked, body, ticket);
  });
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
