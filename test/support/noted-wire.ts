import { Buffer } from 'node:buffer';
import { pino } from 'pino';
import { readConfiguration, type Configuration } from '../../src/service/configuration/configuration.js';
import { readHeaders } from '../../src/gate/request.js';
import type { Pieces, SentHead, TakePiece, Wire, WireAnswer } from '../../src/service/http/front-end.js';
import type { Answered } from '../../src/service/http/exchange.js';
import { Server, type Route } from '../../src/service/http/serve.js';
import { Backlog, type Loop } from '../../src/service/load/backlog.js';
import { Gatekeeper } from '../../src/service/load/gatekeeper.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';

/** A wire that notes what is done to it: over a real one, most orders of events cannot be had on demand. */
export class NotedWire implements Wire {
  readonly done: string[] = [];
  readonly answers: WireAnswer[] = [];
  take: TakePiece = () => this.done.push('nobody takes');
  gone = (): unknown => this.done.push('nobody asks');

  remoteAddress = () => '192.0.2.1';
  onAborted = (gone: (peer?: string) => void): void => void (this.gone = gone);
  receive(take: TakePiece): void {
    this.take = take;
    this.done.push('receive');
  }
  keepOpen = () => void this.done.push('keep open');
  write(answer: WireAnswer): void {
    this.done.push('write');
    this.answers.push(answer);
  }
  #taken: Promise<void> | null = null;
  /** Lets an answer in pieces wait for its client. @returns what has it taken, or the client gone */
  hold(): () => void {
    let release = () => {};
    this.#taken = new Promise((resolve) => (release = resolve));
    return release;
  }
  async stream(answer: Omit<WireAnswer, 'body'>, pieces: Pieces): Promise<void> {
    let body = '';
    for await (const piece of pieces) body += piece;
    this.done.push('stream');
    this.answers.push({ ...answer, body });
    await this.#taken;
  }
  cut = () => void this.done.push('cut');
}

export interface Sent {
  /** The address of a client who has gone before. */
  readonly goneFrom?: string;
  readonly method?: string;
  readonly path?: string;
  readonly query?: string | undefined;
  readonly headers?: readonly (readonly [string, string])[];
  /** Sent with its length; in pieces, if there are several. */
  readonly body?: Buffer | string | readonly (Buffer | string)[];
}

/** The head of a request. */
const requestOf = ({ method = 'POST', path = '/verify', query, headers = [] }: Sent): SentHead => ({
  method,
  target: query === undefined ? path : `${path}?${query}`,
  headers: readHeaders(headers),
});

/** The event loop, in which no time passes: how long a request waits on this machine decides nothing. */
export const STILL_LOOP: Loop = {
  now: () => 0,
  defer: setImmediate,
  pause: (turn) => setTimeout(turn, 1),
};

/** A server without sockets and without a verifier: what its routes are is up to the test. */
export function openServer(changes: Partial<Configuration> = {}, loop = STILL_LOOP) {
  const configuration = { ...readConfiguration({}), ...changes };
  const signatures = { waitMs: 0 };
  const gatekeeper = new Gatekeeper(configuration, new Backlog(configuration, signatures, loop));
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) });
  const reported: Answered[] = [];
  const tracing = {
    record: ({ status, code, knownRequestId, endpoint, parent, startedAt }: Answered) =>
      void reported.push({ status, code, knownRequestId, endpoint, parent, startedAt }),
  };
  const context = { configuration, gatekeeper, metrics: new Metrics(), log, tracing };
  const server = new Server(context);
  /** Serves a request, and sends its body. */
  const ask = (route: Pick<Route, 'serve'> & Partial<Route>, sent: Sent = {}): NotedWire => {
    const wire = new NotedWire();
    if (sent.goneFrom !== undefined) wire.onAborted = (gone) => gone(sent.goneFrom);
    const pieces = [sent.body ?? []].flat().map((piece) => Buffer.from(piece));
    const length = pieces.reduce((sum, { length: bytes }) => sum + bytes, 0);
    const framing = sent.body === undefined ? [] : [['content-length', String(length)] as const];
    const request = requestOf({ ...sent, headers: [...framing, ...(sent.headers ?? [])] });
    const whole: Route = { endpoint: 'verify', methods: [], rateLimit: null, ...route };
    server.handlerOf({ routes: new Map(), unknown: whole })(wire, request);
    for (const [at, piece] of pieces.entries()) {
      wire.take(piece, at === pieces.length - 1);
      // The front end uses its memory again.
      piece.fill(0);
    }
    return wire;
  };
  return { ...context, signatures, server, lines, reported, ask };
}
