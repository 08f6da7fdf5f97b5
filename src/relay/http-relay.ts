import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { closingOnError, type Closers } from '../service/closers.js';
import { UNIX_PEER } from '../service/http/client-address.js';
import { errorAnswer, type Answer, type Exchange } from '../service/http/exchange.js';
import { answerTo } from '../service/http/body-handler.js';
import { NodeWire } from '../service/http/node/node-wire.js';
import { leave, listen, ServedCertificate } from '../service/http/listen/listen.js';
import { openNode } from '../service/http/node/node.js';
import { Server, type Route, type ServerContext, type Table } from '../service/http/serve.js';
import { divideForGuard } from '../service/load/connections.js';
import type { Ticket } from '../service/load/gatekeeper.js';
import { limitOf } from '../service/load/rate-limit.js';
import { PerClientSlots } from '../service/load/per-client-slots.js';
import { endGracefully, urlOf } from '../service/main.js';
import { openTracing } from '../service/observe/tracing.js';
import { httpTarget, isOfRequest, passedHeaders, type Destination, type HttpTarget } from './http-target.js';

export interface Forwarded {
  /** Headers that a relay sets, in place of the client's. */
  readonly set: Readonly<Record<string, string>>;
  /** More headers, beside the client's: names and values by turns. */
  readonly added?: readonly string[];
  /** Whether a further header of the client is left out, by its name in lower case. */
  readonly isLeftOut?: (name: string) => boolean;
  readonly body: Buffer;
  /** Looks at the head of the answer, and may read it. What it returns is sent instead, with the other headers of the answer. */
  readonly onAnswer?: (answer: IncomingMessage) => Promise<OwnAnswer | null>;
}

export type OwnAnswer = Pick<Answer, 'status' | 'headers'> & { readonly body: string | Buffer };

/** What is about the bytes of an answer, or leads elsewhere. */
const OF_BODY = /^(?:content-(?:length|encoding|digest|md5)|etag|digest|repr-digest|accept-ranges|location)$/;

/** What answers the requests of a listener, and sends on what it lets pass. */
export type MakeHandler = (forwarder: Forwarder) => Route['serve'];

type Forwarder = ReturnType<typeof forwarderTo>;

/** Sends requests on to a server, and its answers to clients, piece by piece as they come. */
function forwarderTo(
  target: HttpTarget,
  slots: PerClientSlots,
  { gatekeeper, configuration, log }: ServerContext,
  { url, pathFor }: Destination,
) {
  return {
    /** Whether there is room for a request: a server may take minutes, and an event stream hours. */
    hasRoom({ client }: Exchange, ticket: Ticket | null, bytes: number): boolean {
      return slots.hasFor(client) && ticket?.canGrow(bytes) !== false;
    },
    /** Settled when the body is sent, or cannot be. The answer of the server may then take any time. */
    async send(exchange: Exchange, ticket: Ticket, forwarded: Forwarded): Promise<Answer | null> {
      const { client } = exchange;
      const { set, added = [], isLeftOut = () => false, body, onAnswer } = forwarded;
      // It waits for no verdict any more.
      ticket.release();
      const hasSlot = slots.take(client);
      const wire = hasSlot && ticket.grow(body.length) ? exchange.handOver() : null;
      if (!(wire instanceof NodeWire)) {
        // Others have taken the room meanwhile, or the client has gone.
        if (hasSlot) slots.give(client);
        return answerTo('overloaded', configuration);
      }
      const { request, response } = wire.handOver();
      const gone = new AbortController();
      response.once('close', () => {
        // An abort makes an error, with its stack.
        if (!response.writableFinished) gone.abort();
        slots.give(client);
      });
      const { method = 'GET', rawHeaders, headers: given } = request;
      const ours = new Set(Object.keys(set).map((name) => name.toLowerCase()));
      // A page of this listener is no page of the server's, which would refuse it.
      if (given.origin?.replace(/^https?:\/\//, '') === given.host) ours.add('origin');
      const hasBody = body.length > 0 || method.startsWith('P');
      const headers = [
        'Host',
        url.host,
        ...passedHeaders(rawHeaders, (name) => isOfRequest(name) || ours.has(name) || isLeftOut(name)),
        ...(hasBody ? ['Content-Length', String(body.length)] : []),
        ...Object.entries(set).flat(),
        ...added,
      ];
      const path = pathFor(method, exchange.target) ?? '';
      const asked = target.exchange({ method, headers, path, signal: gone.signal }, body);
      const passOn = async () => {
        const answer = await asked;
        const own = (await onAnswer?.(answer)) ?? null;
        const sent = passedHeaders(answer.rawHeaders, (name) => own !== null && OF_BODY.test(name));
        sent.push(...Object.entries(own?.headers ?? {}).flat());
        if (gatekeeper.isLeaving) sent.push('Connection', 'close');
        response.writeHead(own?.status ?? answer.statusCode ?? 502, answer.statusMessage, sent);
        // An event stream begins at once, also without an event. `flushHeaders` would write headers as UTF-8.
        response.write(Buffer.alloc(0));
        await pipeline(own === null ? answer : [own.body], response);
        // What is not read of it would keep its connection.
        answer.destroy();
      };
      passOn().catch((err: unknown) => {
        if (!gone.signal.aborted) log.warn({ err, server: url.origin }, 'the server did not answer');
        const outcome = (err as Error).cause === 'not sent' ? 'was not executed' : 'may have been executed';
        const error = `the server behind this one did not answer. The call ${outcome}; to repeat it, sign it anew`;
        if (gone.signal.aborted || response.headersSent) response.destroy();
        else response.writeHead(502, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error }));
      });
      await asked.catch(() => undefined);
      return null;
    },
  };
}

/** The names by which a listener may be called. @param more those that its operator names */
export function hostsOf(host: string, more: readonly string[]): ReadonlySet<string> {
  const own = ['127.0.0.1', 'localhost', '[::1]', host.includes(':') ? `[${host}]` : host];
  return new Set([...own, ...more].map((name) => name.toLowerCase()));
}

export interface HttpRelayParts extends Pick<ServerContext, 'configuration' | 'log' | 'hosts' | 'rename'> {
  readonly destination: Destination;
  readonly openDecider: (opened: Closers) => Promise<Decider>;
}

interface Decider extends Pick<ServerContext, 'gatekeeper' | 'metrics'> {
  readonly makeHandler: MakeHandler;
  /** Paths that it answers itself. */
  readonly routes?: Table['routes'];
  /** Reads files again. */
  readonly reload?: (certificate: ServedCertificate) => Promise<void>;
}

/**
 * Opens a relay from HTTP to HTTP, with the limits of the service: on bodies, in all and by client, times, and connections. Its
 * requests are read by `node:http`.
 *
 * @returns its address, and what reads its files again, and what answers what is under way and closes it
 * @throws Error if it cannot listen, or cannot open a store, a log or the routes
 */
export const openHttpRelay = (parts: HttpRelayParts) =>
  closingOnError(async (opened) => {
    const { configuration, destination, log } = parts;
    const certificate = new ServedCertificate(configuration);
    const { http: connections, upstream } = divideForGuard(configuration, log);
    const slots = new PerClientSlots(upstream);
    const target = opened.add(httpTarget(destination.url));
    const { makeHandler, routes = new Map(), reload, ...decider } = await parts.openDecider(opened);
    const context = { ...parts, ...decider, tracing: await openTracing() };
    const nothing = errorAnswer(404, `there is nothing at this path, expected ${destination.url.pathname}`);
    const refusalOf = (exchange: Exchange) =>
      destination.pathFor(exchange.method, exchange.target) === null ? nothing : null;
    const handler = makeHandler(forwarderTo(target, slots, context, destination));
    const serve: Route['serve'] =
      typeof handler === 'function'
        ? (exchange, ticket) => refusalOf(exchange) ?? handler(exchange, ticket)
        : { ...handler, refusalOf };
    const rateLimit = limitOf(configuration);
    const unknown = { endpoint: 'gate', methods: [], takesQuery: true, rateLimit, serve } as const;
    const server = new Server(context);
    const handle = server.handlerOf({ routes, unknown, peer: configuration.listen && UNIX_PEER });
    const { requestTimeoutSecs } = configuration;
    const isRefusing = () => context.gatekeeper.isRefusing;
    const options = { handle, isRefusing, connections, requestTimeoutSecs, certificate: certificate.current };
    const frontEnd = certificate.servedBy(opened.add(openNode(options)));
    const port = await listen(frontEnd, configuration, opened);
    return {
      url: urlOf(configuration, port),
      reload: () => reload?.(certificate),
      close: async () => {
        await leave(context, frontEnd, () => server.open + slots.taken, false);
        await opened.close();
      },
    };
  });

/**
 * Runs a relay until a signal ends it.
 *
 * @param reloads whether SIGHUP has it read its files again; else it ends it
 * @returns its address, when it listens
 */
export async function runHttpRelay(parts: HttpRelayParts, reloads: boolean): Promise<string> {
  const relay = await openHttpRelay(parts);
  const { configuration, log } = parts;
  endGracefully({ log, configuration, skip: reloads ? ['SIGHUP'] : [], close: () => relay.close() });
  if (reloads) process.on('SIGHUP', () => void relay.reload());
  // `npx` may end without its shell and without this process: nobody would know that the port is still open.
  const starters = startersOf();
  const endAlone = () => startersOf() === starters || process.kill(process.pid, 'SIGTERM');
  if (process.env['npm_command'] === 'exec') setInterval(endAlone, 1000).unref();
  return relay.url;
}

/** The process that started this one, and the one that started that: under `npx`, a shell and `npx`. */
function startersOf(): string {
  const { ppid } = process;
  try {
    return readFileSync(`/proc/${ppid}/stat`, 'latin1').replace(/.*\) \S (\d+).*/s, `${ppid} $1`);
  } catch {
    return String(ppid);
  }
}
