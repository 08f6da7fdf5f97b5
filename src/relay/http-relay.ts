import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Configuration } from '../service/configuration/configuration.js';
import { Opened, openCore, type Core } from '../service/core.js';
import { refusal, type Answer, type Incoming } from '../service/http/incoming.js';
import { answerTo, type Judge } from '../service/http/judged-body.js';
import { ServedCertificate } from '../service/http/listen/certificate.js';
import { showAddress } from '../service/http/front-end.js';
import { NodeWire } from '../service/http/node/node-wire.js';
import { openNode } from '../service/http/node/node.js';
import { Server, type Route } from '../service/http/serve.js';
import { divideForGuard } from '../service/load/connections.js';
import type { Ticket } from '../service/load/gatekeeper.js';
import { PerClientSlots } from '../service/load/per-client-slots.js';
import { closingMsOf, endGracefully } from '../service/main.js';
import { openTracing } from '../service/observe/tracing.js';
import { limitOf } from '../service/routes/table.js';
import { answerHeaders, HttpTarget, requestHeaders } from './http-target.js';
import type { Destination } from './destination.js';

const LOOPBACK_NAMES = ['127.0.0.1', 'localhost', '[::1]'];
const POLL_MS = 10;

/** A status, and a body in JSON. */
export type OwnAnswer = Pick<Answer, 'status'> & { readonly body: string };

/** A request that is sent on. */
export interface Forwarded {
  readonly path: string;
  /** What a relay sets, names and values by turns. */
  readonly set: readonly string[];
  /** Whether a header of the client is left out, by its name in lower case. */
  readonly isLeftOut: (name: string) => boolean;
  readonly body: Buffer | null;
  /** Looks at the head of the answer. What it returns is sent instead. */
  readonly onAnswer?: (answer: IncomingMessage) => Promise<OwnAnswer | null>;
}

/** Sends requests on to a server, and its answers to clients, piece by piece as they come. */
export interface Forwarder {
  /** Whether there is room for a request: a server may take minutes, and an event stream hours. */
  hasRoom(incoming: Incoming, ticket: Ticket | null, bytes: number): boolean;
  /** Settled when the body is sent, or cannot be. The answer of the server may then take any time. */
  send(incoming: Incoming, ticket: Ticket, forwarded: Forwarded): Promise<Answer | null>;
  /** Number of requests that are not answered whole. */
  readonly open: number;
}

/** What decides on the requests of a listener, which sends on what it lets pass. */
export type MakeJudge = (core: Core, forwarder: Forwarder, refusalOf: Judge['refusalOf']) => Judge<Incoming>;

function forwarderTo(
  target: HttpTarget,
  core: Core,
  slots: PerClientSlots,
  parts: HttpRelayParts,
): Forwarder {
  let open = 0;
  const exchange = async (
    { method = 'GET', rawHeaders, headers: { host = '', origin } }: IncomingMessage,
    response: ServerResponse,
    { path, set, isLeftOut, body, onAnswer }: Forwarded,
    onSent: () => void,
  ) => {
    open++;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    // A page of this listener is no page of the server's, which would refuse it.
    const isOwnPage = origin !== undefined && /^https?:\/\/(.*)$/.exec(origin)?.[1] === host;
    try {
      const headers = [
        ...['Host', target.url.host],
        ...requestHeaders(rawHeaders, (name) => isLeftOut(name) || (isOwnPage && name === 'origin')),
        ...(body === null && !method.startsWith('P') ? [] : ['Content-Length', String(body?.length ?? 0)]),
        ...set,
      ];
      const outgoing = { method, headers, body, signal: gone.signal };
      const answer = await target.exchange(outgoing, path).finally(onSent);
      const own = (await onAnswer?.(answer)) ?? null;
      if (own !== null) {
        answer.destroy();
        end(response, own);
        return;
      }
      const sent = answerHeaders(answer.rawHeaders);
      if (core.gatekeeper.isLeaving) sent.push('Connection', 'close');
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, sent);
      // An event stream begins at once, also without an event. `flushHeaders` would write headers as UTF-8.
      response.write(Buffer.alloc(0));
      await pipeline(answer, response);
    } catch (err) {
      if (!gone.signal.aborted)
        parts.log.warn({ err, server: target.url.origin }, 'the server did not answer');
      if (gone.signal.aborted || response.headersSent) response.destroy();
      else end(response, { status: 502, body: JSON.stringify({ error: noAnswer(err as Error) }) });
    } finally {
      open--;
    }
  };
  return {
    get open() {
      return open;
    },
    hasRoom: ({ client }, ticket, bytes) => slots.hasFor(client) && ticket?.canGrow(bytes) !== false,
    async send(incoming, ticket, forwarded) {
      const { client } = incoming;
      // It waits for no verdict any more.
      ticket.release();
      const hasSlot = slots.take(client);
      const wire = hasSlot && ticket.grow(forwarded.body?.length ?? 0) ? incoming.handOver() : null;
      if (!(wire instanceof NodeWire)) {
        // Others have taken the room meanwhile, or the client has gone.
        if (hasSlot) slots.give(client);
        return answerTo('overloaded', parts.configuration);
      }
      const { request, response } = wire.handOver();
      await new Promise<void>((resolve) => {
        void exchange(request, response, forwarded, resolve).finally(() => {
          slots.give(client);
          resolve();
        });
      });
      return null;
    },
  };
}

function noAnswer({ cause }: Error): string {
  const outcome = cause === 'not sent' ? 'was not executed' : 'may have been executed';
  return `the server behind this one did not answer. The call ${outcome}; to repeat it, sign it anew`;
}

function end(response: ServerResponse, { status, body }: OwnAnswer): void {
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  response.writeHead(status, headers).end(body);
}

/** A relay that listens. */
export interface HttpRelay {
  readonly url: string;
  /** Reads its files again. Rejects if they cannot be used; the old ones stay. */
  reload(): Promise<void>;
  /** Answers what is under way, for `SHUTDOWN_GRACE_SECS` at most, and closes. */
  close(): Promise<void>;
}

/** Whether an address is of the loopback interface. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** The names by which a listener may be called. @param more those that its operator names */
export function hostsOf(host: string, more: readonly string[]): ReadonlySet<string> {
  return new Set(
    [...LOOPBACK_NAMES, host.includes(':') ? `[${host}]` : host, ...more].map((name) => name.toLowerCase()),
  );
}

/** What a relay from HTTP to HTTP needs. */
export interface HttpRelayParts {
  readonly configuration: Configuration;
  readonly destination: Destination;
  readonly makeJudge: MakeJudge;
  /** The names by which it may be called; `null`: any. */
  readonly hosts: ReadonlySet<string> | null;
  readonly log: Logger;
  readonly openReplays?: Parameters<typeof openCore>[3];
}

/**
 * Opens a relay from HTTP to HTTP, with the limits of the service: on bodies, in all and by client, times, and connections.
 *
 * @throws Error if it cannot listen, or cannot open a store, a log or the routes
 */
export async function openHttpRelay(parts: HttpRelayParts): Promise<HttpRelay> {
  const { configuration, makeJudge, hosts, log } = parts;
  const { url, pathFor, expected } = parts.destination;
  const opened = new Opened();
  try {
    const certificate = ServedCertificate.read(configuration);
    const core = await openCore(configuration, log, opened, parts.openReplays);
    const { metrics, engine, gatekeeper, gate } = core;
    const { http: connections, upstream } = divideForGuard(configuration, log);
    const slots = new PerClientSlots(upstream);
    const forwarder = forwarderTo(opened.add(new HttpTarget(url)), core, slots, parts);
    const judge = makeJudge(core, forwarder, (incoming) =>
      pathFor(incoming.method, targetOf(incoming)) === null
        ? refusal(404, `there is nothing at this path, expected ${expected}`)
        : null,
    );
    const route = { endpoint: 'gate', methods: [], isProxied: true, takesQuery: true, serve: judge } as const;
    const unknown: Route = { ...route, rateLimit: limitOf(configuration) };
    const tracing = await openTracing();
    const server = new Server({ configuration, gatekeeper, metrics, log, tracing, hosts });
    const handle = server.handlerOf({ routes: new Map(), unknown });
    const { requestTimeoutSecs } = configuration;
    const served = { handle, connections, requestTimeoutSecs, certificate: certificate?.current ?? null };
    const frontEnd = opened.add(openNode(served));
    const { host } = configuration;
    const port = await frontEnd.listen({ host, port: configuration.port, isShared: false });
    const shown = showAddress({ host, port });
    return {
      url: `${certificate === null ? 'http' : 'https'}://${shown}`,
      reload: async () => {
        certificate?.reload([frontEnd]);
        gate.routes.reload();
        await engine.rootsFile?.reload();
      },
      close: async () => {
        gatekeeper.isLeaving = true;
        frontEnd.stopListening();
        const deadline = performance.now() + configuration.shutdownGraceSecs * 1000;
        while (server.open + forwarder.open > 0 && performance.now() < deadline) await sleep(POLL_MS);
        await opened.close();
      },
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Path and query, as they were sent. */
export function targetOf({ path, query }: Incoming): string {
  return query === undefined ? path : `${path}?${query}`;
}

const RELOADED = 'SIGHUP: certificate, routes and trusted roots were read again';
const NOT_RELOADED = 'certificate, routes or trusted roots could not be read again: the old ones still hold';

/**
 * Runs a relay until a signal ends it.
 *
 * @param reloads whether SIGHUP has it read its files again; else it ends it
 * @returns its address, when it listens
 */
export async function runHttpRelay(parts: HttpRelayParts, reloads: boolean): Promise<string> {
  const relay = await openHttpRelay(parts);
  const { configuration, log } = parts;
  const delayMs = closingMsOf(configuration);
  endGracefully({ log, delayMs, skip: reloads ? ['SIGHUP'] : [], close: () => relay.close() });
  const reload = () =>
    relay.reload().then(
      () => log.info(RELOADED),
      (err: unknown) => log.error({ err }, NOT_RELOADED),
    );
  if (reloads) process.on('SIGHUP', () => void reload());
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
    const [, before = ''] = /\) \S (\d+)/.exec(readFileSync(`/proc/${ppid}/stat`, 'latin1')) ?? [];
    return `${ppid} ${before}`;
  } catch {
    return String(ppid);
  }
}
