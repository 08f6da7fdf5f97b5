import { Buffer } from 'node:buffer';
import { performance } from 'node:perf_hooks';
import type { HttpResponse } from 'uWebSockets.js';
import { MAX_TYPICAL_BYTES } from './admission.js';
import { BodyReader, type BodyRules, type BodySink } from './body-reader.js';
import type { Endpoint } from './metrics.js';
import type { RequestHead } from './request-head.js';

/** Answers that carry more than a body. */
export interface AnswerOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the connection behind the answer. */
  readonly closes?: boolean;
}

/** Who is told about an exchange. */
export interface ExchangeOwner {
  /** Whether every answer ends its connection. */
  readonly isLeaving: boolean;
  /** Called once, when the answer is given or the client is gone. */
  ended(exchange: Exchange): void;
}

interface Answer extends AnswerOptions {
  readonly status: number;
  readonly json: string;
}

const REASONS: Readonly<Record<number, string>> = {
  200: '200 OK',
  400: '400 Bad Request',
  401: '401 Unauthorized',
  403: '403 Forbidden',
  404: '404 Not Found',
  405: '405 Method Not Allowed',
  408: '408 Request Timeout',
  409: '409 Conflict',
  413: '413 Payload Too Large',
  429: '429 Too Many Requests',
  500: '500 Internal Server Error',
  503: '503 Service Unavailable',
};

// A client that is still sending when it is refused must get to read why: so much is read and thrown away first.
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;
const MAX_DISCARDING_MS = 2000;

/**
 * One request and its answer. uWebSockets.js frees `res` when the client goes away or the answer has been written;
 * touching it afterwards ends the process, so all writing goes through here.
 */
export class Exchange {
  readonly startedAt = performance.now();
  readonly endpoint: Endpoint;
  readonly #res: HttpResponse;
  readonly #isHead: boolean;
  readonly #owner: ExchangeOwner;
  /** The request is answered, or its client gone. */
  #isOver = false;
  /** `res` must not be touched any more. */
  #isFreed = false;
  #isBodyDue: boolean;
  #isReceiving = false;
  #body: ((chunk: ArrayBuffer, isLast: boolean) => void) | null = null;
  #reader: BodyReader | null = null;
  #status = 0;
  /** An answer that waits for the first piece of the body. */
  #early: Answer | null = null;
  #discarded = 0;
  #discardTimer: NodeJS.Timeout | null = null;

  constructor(
    res: HttpResponse,
    isHead: boolean,
    { hasBody }: RequestHead,
    endpoint: Endpoint,
    owner: ExchangeOwner,
  ) {
    this.#res = res;
    this.#isHead = isHead;
    this.#isBodyDue = hasBody;
    this.endpoint = endpoint;
    this.#owner = owner;
    res.onAborted(() => {
      this.#free();
      this.#end();
    });
  }

  /** Whether the answer is given or the client is gone. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The status of the answer; 0 where there is none. */
  get status(): number {
    return this.#status;
  }

  /** Answers with JSON text; does nothing where the client is gone. */
  answer(status: number, json: string, options?: AnswerOptions): void {
    if (this.#isOver) return;
    this.#status = status;
    if (!this.#isBodyDue) this.#write(status, json, options);
    else if (this.#isReceiving) this.#writeEarly({ status, json, ...options });
    else {
      // The first piece tells whether the body has come with the headers, and nothing needs to be closed.
      this.#early = { status, json, ...options };
      this.#receive();
    }
    this.#end();
  }

  /** Answers `{ "error": … }`. */
  refuse(status: number, error: string, options?: AnswerOptions): void {
    this.answer(status, JSON.stringify({ error }), options);
  }

  /**
   * Reads the body. The sink must use at once what is no longer than {@link MAX_TYPICAL_BYTES}; a larger one it may keep
   * until {@link releaseBody}.
   */
  readBody(rules: BodyRules, sink: BodySink): void {
    this.#body = (chunk, isLast) => {
      if (this.#reader !== null) this.#reader.take(chunk, isLast);
      else if (chunk.byteLength > rules.maxBytes) sink('too_large');
      else if (isLast && chunk.byteLength <= MAX_TYPICAL_BYTES) sink(Buffer.from(chunk));
      else {
        this.#reader = new BodyReader(rules, this.startedAt, sink, () => this.#keepOpen());
        this.#reader.take(chunk, isLast);
      }
    };
    this.#receive();
  }

  /** Throws the body away; needed where the answer comes later and nobody reads it. */
  ignoreBody(): void {
    this.#receive();
  }

  /** Gives back the memory of a body that came in pieces. */
  releaseBody(): void {
    this.#reader?.release();
  }

  #receive(): void {
    this.#isReceiving = true;
    this.#res.onData((chunk, isLast) => {
      if (isLast) this.#isBodyDue = false;
      if (this.#isOver) this.#discard(chunk.byteLength, isLast);
      else this.#body?.(chunk, isLast);
    });
  }

  /** uWebSockets.js closes connections that send less than 16 KB/s for ten seconds; this starts them anew. */
  #keepOpen(): void {
    if (this.#isFreed) return;
    this.#res.pause();
    this.#res.resume();
  }

  #write(
    status: number,
    json: string,
    { headers, closes = this.#owner.isLeaving }: AnswerOptions = {},
  ): void {
    const res = this.#res;
    this.#isFreed = true;
    res.cork(() => {
      if (status !== 200) res.writeStatus(REASONS[status] ?? String(status));
      if (headers?.['Content-Type'] === undefined) res.writeHeader('Content-Type', 'application/json');
      if (headers !== undefined)
        for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value);
      // uWebSockets.js says `Connection: close` itself.
      if (this.#isHead) res.endWithoutBody(Buffer.byteLength(json), closes);
      else res.end(json, closes);
    });
  }

  /**
   * Answers a client that is still sending. uWebSockets.js has no half-closed state: a response that it has ended can
   * not be closed later, and one closed at once resets the connection before the client has read it. So the whole
   * answer goes out as a status line, which leaves the response open; the line break that uWebSockets.js puts behind
   * it counts as the end of the body.
   */
  #writeEarly({ status, json, headers }: Answer): void {
    const lines = [REASONS[status] ?? String(status), 'Content-Type: application/json'];
    for (const [name, value] of Object.entries(headers ?? {})) lines.push(`${name}: ${value}`);
    lines.push('Connection: close', `Content-Length: ${Buffer.byteLength(json) + 2}`);
    const body = this.#isHead ? '' : json;
    this.#res.cork(() => this.#res.writeStatus(`${lines.join('\r\n')}\r\n\r\n${body}`));
    this.#discardTimer = setTimeout(() => this.#close(), MAX_DISCARDING_MS);
  }

  #discard(bytes: number, isLast: boolean): void {
    if (this.#isFreed) return;
    if (this.#early !== null) {
      const early = this.#early;
      this.#early = null;
      if (isLast) {
        this.#write(early.status, early.json, early);
        return;
      }
      this.#writeEarly(early);
    }
    this.#discarded += bytes;
    // Not here: what was written in this turn is sent at its end, and closing would throw it away.
    if (isLast || this.#discarded > MAX_DISCARDED_BYTES) setImmediate(() => this.#close());
  }

  #close(): void {
    if (this.#isFreed) return;
    this.#res.close();
  }

  #free(): void {
    this.#isFreed = true;
    if (this.#discardTimer !== null) clearTimeout(this.#discardTimer);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reader?.release();
    this.#owner.ended(this);
  }
}
