import { Buffer } from 'node:buffer';
import { MAX_TYPICAL_BYTES, type Ticket } from '../load/gatekeeper.js';
import type { Endpoint } from '../observe/metrics/metrics.js';
import { openBodyReader, type BodyFault, type BodyReader } from './body-reader.js';
import { clientOf } from './client-address.js';
import { GONE_PEER, type Pieces, type SentHead, type Wire, type WireAnswer } from './front-end.js';
import type { HeaderMap, HeaderName } from '../../gate/request.js';
import {
  newRequestId,
  readRequestId,
  traceParentOf,
  type LoggedRequest,
  type TracedMessage,
  type TraceParent,
} from './logged-request.js';

/** What a request is answered with. */
export interface Answer {
  readonly status: number;
  /** JSON, unless a header says something else. Bytes are not copied. Pieces are sent as fast as the client takes them, and keep the ticket. */
  readonly body: string | Buffer | Pieces;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Closes the connection after the answer. */
  readonly closes?: boolean;
  /** Pieces that the client must take within the time for sending a body: they take memory that others may need. */
  readonly isTimed?: boolean;
}

/** An answer that is sent as a whole. */
export interface TextAnswer extends Answer {
  readonly body: string;
}

/** `null` if nobody waits for an answer, or somebody else gives it. */
export type Answering = Answer | null | Promise<Answer | null>;

/** An answer `{ "error": … }`. */
export function errorAnswer(
  status: number,
  error: string,
  more: Pick<Answer, 'headers' | 'closes'> = {},
): TextAnswer {
  return { status, body: JSON.stringify({ error }), ...more };
}

/** What is judged: a request, or a line of a batch. */
export interface Asker extends LoggedRequest {
  /** Whether nobody waits for the answer any more. */
  readonly isOver: boolean;
}

/** What is counted, logged and traced of an answer. */
export interface Answered extends Pick<LoggedRequest, 'endpoint' | 'parent' | 'code' | 'message'> {
  readonly startedAt: number;
  /** 0 if the client has disconnected before. */
  readonly status: number;
  /** The id that the answer carries; `null` if the caller sent none and none was made. */
  readonly knownRequestId: string | null;
}

/** What requests share with their server. */
export interface ExchangeOwner {
  /** Whether every answer closes its connection. */
  readonly gatekeeper: { readonly isLeaving: boolean };
  /** How long a client may send a body, and take an answer that has a time. */
  readonly bodyTimeoutMs: number;
  /** The address of the client behind the peer of a connection. */
  clientAddress(peer: string, forwardedFor: string | null): string;
  /** Counts, logs and traces an answer: of a request, or of a line of a batch. */
  report(answered: Answered): void;
}

type Reading = { readonly maxBytes: number; readonly ticket: Ticket };

/** Whether a `Connection` header has the option `close`. */
export const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i;
const NOTHING = Buffer.alloc(0);
/** The content type of a batch, and of its answer. */
export const NDJSON_TYPE = 'application/x-ndjson';

// A client that is still sending when it is refused must be able to read the answer, even if it is slow or stands still
// for a moment. So its data is read and discarded, for as long as a body may take and up to this limit, before it is
// answered.
const MAX_DISCARDED_BYTES = 128 * 1024 * 1024;

/** One request and its answer, over both front ends. A freed wire must not be used, so all reading and writing goes through this class. */
export class Exchange implements Asker, Answered {
  readonly startedAt = performance.now();
  readonly endpoint: Endpoint;
  readonly method: string;
  /** The path as it was sent, without the query. */
  readonly path: string;
  readonly target: string;
  readonly headers: HeaderMap;
  /** `Content-Length`; 0 if it is absent. */
  readonly contentLength: number;
  readonly hasBody: boolean;
  parent: TraceParent | null;
  code: string | null = null;
  message?: TracedMessage;
  address: string | null = null;
  /** Stands for the address of its peer. */
  peer: string | undefined;
  /** Whether its lines are counted in its place. */
  isBatch = false;
  status = 0;
  /** The request is answered, or its client has disconnected. */
  isOver = false;
  /** Its client has disconnected before. */
  isGone = false;
  knownRequestId: string | null = null;
  /** With which it waits for its turn. */
  ticket: Ticket | null = null;
  readonly #wire: Wire;
  readonly #owner: ExchangeOwner;
  readonly #isLast: boolean;
  #client: string | null = null;
  /** The wire must not be used any more. */
  #isFreed = false;
  /** Its address then. */
  #gonePeer = GONE_PEER;
  #isBodyDue: boolean;
  #isReceiving = false;
  /** Of a body that is being read. */
  #reading: Reading | null = null;
  #reader: BodyReader | null = null;
  #onBody: ((body: Buffer | BodyFault) => void) | null = null;
  #timer: NodeJS.Timeout | null = null;

  /** @param path that of the head, without the query */
  constructor(
    wire: Wire,
    { method, target, headers }: SentHead,
    path: string,
    endpoint: Endpoint,
    owner: ExchangeOwner,
  ) {
    this.#wire = wire;
    this.#owner = owner;
    this.endpoint = endpoint;
    this.method = method;
    this.path = path;
    this.target = target;
    this.headers = headers;
    const length = this.header('content-length');
    this.contentLength = Number(length ?? 0);
    this.hasBody = (length !== null && length !== '0') || this.header('transfer-encoding') !== null;
    this.parent = traceParentOf((name) => this.header(name));
    this.#isBodyDue = this.hasBody;
    // RFC 9112 §9.6
    this.#isLast = CLOSE.test(this.header('connection') ?? '');
    const id = this.header('x-request-id');
    if (id !== null) this.knownRequestId = readRequestId(id);
    wire.onAborted((peer = GONE_PEER) => {
      this.#gonePeer = peer;
      this.#free();
      this.isOver = this.isGone = true;
      this.#endReading('gone');
      this.ticket?.giveUp();
    });
  }

  /** All headers of a name in the order sent, joined with commas; `null` if there is none. */
  header(name: HeaderName): string | null {
    return this.headers.get(name)?.replaceAll('\n', ',') ?? null;
  }

  /**
   * Why it is unclear where the body ends; `null` if it is clear. uWebSockets.js uses the first of two lengths and treats any coding as
   * `chunked`; a proxy in front may decide otherwise (request smuggling).
   */
  get framingDefect(): string | null {
    if (this.header('content-length')?.includes(',') === true)
      return 'Content-Length comes more than once, expected one';
    const coding = this.header('transfer-encoding');
    if (coding === null || coding.toLowerCase() === 'chunked') return null;
    return `Transfer-Encoding is ${JSON.stringify(coding.slice(0, 40))}, expected "chunked" once`;
  }

  /**
   * Whether the request may come from a web page that is not listed. Any page can send a POST to a verifier on its
   * visitor's machine or network. Browsers send the origin of such a request; other clients do not.
   */
  isForeign(allowed: ReadonlySet<string>): boolean {
    const origin = this.header('origin');
    if (origin !== null) return !allowed.has(origin);
    const site = this.header('sec-fetch-site');
    return site !== null && site !== 'none' && site !== 'same-origin';
  }

  /** The part after the `?`; empty if there is none. */
  get query(): string {
    return this.target.slice(this.path.length + 1);
  }

  get requestId(): string {
    return (this.knownRequestId ??= newRequestId());
  }

  /** The address of the client as text; see `TRUST_PROXY`. Read it before the answer. */
  get clientAddress(): string {
    const peer = this.peer ?? (this.#isFreed ? this.#gonePeer : this.#wire.remoteAddress());
    return this.#owner.clientAddress(peer, this.header('x-forwarded-for'));
  }

  /** The client under which the request is counted. */
  get client(): string {
    return (this.#client ??= clientOf(this.clientAddress));
  }

  /** Whether it is a batch: its content type is NDJSON, as far as that can be told. */
  get hasLines(): boolean {
    const type = this.header('content-type');
    // The usual `application/json` is shorter.
    return type !== null && type.length >= NDJSON_TYPE.length && type.toLowerCase().includes(NDJSON_TYPE);
  }

  /**
   * Reads the body. Call it before anything is waited for: uWebSockets.js drops what comes while nobody reads.
   *
   * @param ticket grows with a body that comes in pieces
   */
  read(maxBytes: number, ticket: Ticket): Promise<Buffer | BodyFault> {
    return new Promise((resolve) => {
      if (this.contentLength > maxBytes) resolve('too_large');
      else if (!this.#isBodyDue) resolve(NOTHING);
      else {
        this.#reading = { maxBytes, ticket };
        this.#onBody = resolve;
        this.#receive();
      }
    });
  }

  /** Discards a body that nobody reads. */
  ignoreBody(): void {
    if (this.#isBodyDue && !this.#isReceiving && !this.isOver) this.#receive();
  }

  /**
   * Answers. Does nothing if the client has disconnected.
   *
   * @returns a promise if the answer comes in pieces: settled when the client has taken them, or has disconnected
   */
  answer({ status, body, headers, closes = this.#closes, isTimed }: Answer): Promise<void> | null {
    if (this.isOver) return null;
    this.status = status;
    const id = this.knownRequestId;
    const all = id === null ? headers : { ...headers, 'X-Request-Id': id };
    const isHead = this.method === 'HEAD';
    let sent: Promise<void> | null = null;
    if (typeof body !== 'string' && !Buffer.isBuffer(body)) {
      const pieces = isHead ? [] : body;
      if (isTimed === true) this.#timer = setTimeout(() => this.#wire.cut(), this.#owner.bodyTimeoutMs);
      sent = this.#wire.stream({ status, headers: all, isHead, closes }, pieces).finally(() => this.#free());
    } else {
      const answer: WireAnswer = { status, body, headers: all, isHead, closes };
      if (this.#isBodyDue) this.#writeLater(answer);
      else this.#write(answer);
    }
    this.isOver = true;
    return sent;
  }

  /** Reports the answer to a line of this batch. */
  reportLine(line: Answered): void {
    this.#owner.report(line);
  }

  /**
   * Gives the wire to somebody who answers in pieces. The body must have been read.
   *
   * @returns `null` if the client has disconnected
   */
  handOver(): Wire | null {
    if (this.isOver) return null;
    this.#isFreed = this.isOver = true;
    return this.#wire;
  }

  get #closes(): boolean {
    return this.#isLast || this.#owner.gatekeeper.isLeaving;
  }

  #receive(): void {
    this.#isReceiving = true;
    this.#wire.receive((chunk, isLast) => {
      if (isLast) this.#isBodyDue = false;
      if (this.#isFreed) return;
      if (this.isOver) this.#reader?.take(chunk, isLast);
      else if (this.#reading !== null) this.#take(chunk, isLast, this.#reading);
    });
  }

  #take(chunk: Buffer, isLast: boolean, { maxBytes, ticket }: Reading): void {
    if (this.#reader !== null) this.#reader.take(chunk, isLast);
    else if (isLast && chunk.length <= Math.min(MAX_TYPICAL_BYTES, maxBytes))
      // A copy: the piece is only valid during the call.
      this.#endReading(Buffer.from(chunk));
    else this.#openReader(ticket, maxBytes, (body) => this.#endReading(body)).take(chunk, isLast);
  }

  #endReading(body: Buffer | BodyFault): void {
    this.#reader?.stop();
    this.#reading = null;
    this.#onBody?.(body);
    this.#onBody = null;
  }

  #write(answer: WireAnswer): void {
    this.#free();
    this.#wire.write(answer);
  }

  /** Before the rest of the body has come, its client may not be able to read: it is discarded first, and then the answer goes. */
  #writeLater(answer: WireAnswer): void {
    this.#reader?.stop();
    const end = (rest: Buffer | BodyFault) =>
      this.#write(typeof rest === 'string' ? { ...answer, closes: true } : answer);
    if (this.contentLength > MAX_DISCARDED_BYTES) end('too_large');
    else this.#openReader(null, MAX_DISCARDED_BYTES, end);
    if (!this.#isFreed && !this.#isReceiving) this.#receive();
  }

  #openReader(ticket: Ticket | null, maxBytes: number, end: (body: Buffer | BodyFault) => void): BodyReader {
    const rules = { ticket, maxBytes, endsAt: this.startedAt + this.#owner.bodyTimeoutMs };
    return (this.#reader = openBodyReader(rules, end, () => this.#wire.keepOpen()));
  }

  #free(): void {
    this.#isFreed = true;
    this.#reader?.stop();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }
}
