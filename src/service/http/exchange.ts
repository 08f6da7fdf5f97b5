import type { Buffer } from 'node:buffer';
import { performance } from 'node:perf_hooks';
import { MAX_TYPICAL_BYTES, type BodyReservation } from '../load/admission.js';
import { BodyReader, MAX_PIECES, type BodyRules, type BodySink } from './body-reader.js';
import type { Wire, WireAnswer } from './front-end.js';
import { clientOf } from '../load/rate-limit.js';
import { type RequestHead, newRequestId } from './request-head.js';

/** The endpoints, as metrics name them; `other` stands for all unknown paths. */
// prettier-ignore
export const ENDPOINTS = ['verify', 'gate', 'revoke', 'usage', 'healthz', 'readyz', 'metrics', 'jwks', 'openapi', 'inspect', 'other'] as const;

/** A label of {@link ENDPOINTS}. */
export type Endpoint = (typeof ENDPOINTS)[number];

/** Optional parts of an answer. */
export interface AnswerOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Closes the connection after the answer. */
  readonly closes?: boolean;
}

/** What the logs of verdicts read of a request, over any protocol. */
export type LoggedRequest = Pick<Exchange, 'endpoint' | 'traceparent' | 'code' | 'requestId' | 'address'>;

/** What is counted, logged and traced of an answer. */
export type Answered = Pick<
  Exchange,
  'endpoint' | 'traceparent' | 'code' | 'startedAt' | 'status' | 'knownRequestId'
>;

/** What gets an answer of its own: a request, or a line of a batch. */
export type Question = LoggedRequest & Pick<Exchange, 'isOver' | 'answer' | 'refuse' | 'releaseBody'>;

/** The owner of an exchange, which is notified of its end. */
export interface ExchangeOwner {
  /** Whether every answer closes its connection. */
  readonly isLeaving: boolean;
  /** How long a client may send a body, and go on sending one that was refused. */
  readonly bodyTimeoutMs: number;
  /** The address of the client behind the peer of a connection. */
  clientAddress(peer: string, forwardedFor: string | null): string;
  /** Called once, when the request is answered or the client has disconnected. */
  ended(exchange: Exchange): void;
  /** Called when a line of a batch is answered. */
  lineAnswered(line: Answered): void;
}

// A client that is still sending when it is refused must be able to read the answer, even if it is slow or stands still
// for a moment. So its data is read and discarded, for as long as a body may take and up to this limit, before the
// connection is closed.
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/** One request and its answer. A freed wire must not be used, so all writing goes through this class. */
export class Exchange {
  readonly startedAt = performance.now();
  readonly endpoint: Endpoint;
  readonly traceparent: string | null;
  /** The code of an invalid verdict, for traces. Set by the route. */
  code: string | null = null;
  /** The {@link clientAddress} for the decision log; `null` if nobody reads it there. */
  address: string | null = null;
  /** Whether its lines are counted in its place. Set before the answer. */
  isBatch = false;
  readonly #wire: Wire;
  readonly #isHead: boolean;
  readonly #isLast: boolean;
  readonly #forwardedFor: string | null;
  readonly #owner: ExchangeOwner;
  /** The request is answered, or its client has disconnected. */
  #isOver = false;
  /** The wire must not be used any more. */
  #isFreed = false;
  #isBodyDue: boolean;
  #isReceiving = false;
  #body: ((chunk: Buffer, isLast: boolean) => void) | null = null;
  #reader: BodyReader | null = null;
  #held: BodyReservation | null = null;
  #status = 0;
  /** An answer that waits for the first piece of the body. */
  #early: WireAnswer | null = null;
  #discarded = 0;
  #requestId: string | null;
  #discardTimer: NodeJS.Timeout | null = null;

  constructor(
    wire: Wire,
    isHead: boolean,
    { hasBody, isLast, requestId, traceparent, forwardedFor }: RequestHead,
    endpoint: Endpoint,
    owner: ExchangeOwner,
  ) {
    this.#wire = wire;
    this.#isHead = isHead;
    this.#isLast = isLast;
    this.#forwardedFor = forwardedFor;
    this.#isBodyDue = hasBody;
    this.#requestId = requestId;
    this.traceparent = traceparent;
    this.endpoint = endpoint;
    this.#owner = owner;
    wire.onAborted(() => {
      this.#free();
      this.#end();
      this.#release();
    });
  }

  /**
   * The id of this request in logs: the caller's, or a new one. From now on the answer carries it.
   */
  get requestId(): string {
    return (this.#requestId ??= newRequestId());
  }

  /** The id that the answer carries; `null` if the caller sent none and none was made. */
  get knownRequestId(): string | null {
    return this.#requestId;
  }

  /** The address of the client as text; see `TRUST_PROXY`. Read it before the answer. */
  get clientAddress(): string {
    return this.#owner.clientAddress(this.#wire.remoteAddress(), this.#forwardedFor);
  }

  /** Whether the request is answered or the client has disconnected. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The status of the answer; 0 if there is none yet. */
  get status(): number {
    return this.#status;
  }

  /** Answers with JSON text, or with bytes, which are not copied. Does nothing if the client has disconnected. */
  answer(
    status: number,
    json: string | Buffer,
    { headers, closes = this.#closes }: AnswerOptions = {},
  ): void {
    if (this.#isOver) return;
    this.#status = status;
    const id = this.#requestId;
    const answer: WireAnswer = {
      status,
      body: json,
      headers: id === null ? headers : { ...headers, 'X-Request-Id': id },
      isHead: this.#isHead,
      closes,
    };
    if (!this.#isBodyDue) this.#write(answer);
    else if (this.#isReceiving) this.#writeEarly(answer);
    else {
      // Wait for the first piece. If it is the whole body, the connection can stay open.
      this.#early = answer;
      this.#receive(false);
    }
    this.#end();
  }

  /** Answers `{ "error": … }`. */
  refuse(status: number, error: string, options?: AnswerOptions): void {
    this.answer(status, JSON.stringify({ error }), options);
  }

  /** Answers 200 in pieces, as fast as the client takes them. The request must have no body. */
  stream(contentType: string, pieces: Iterator<string, void>): void {
    if (this.#isOver) return;
    this.#status = 200;
    const id = this.#requestId;
    this.#wire.begin({
      status: 200,
      closes: this.#closes,
      headers: { 'Content-Type': contentType, ...(id !== null && { 'X-Request-Id': id }) },
    });
    const next = () => {
      if (this.#isFreed) return;
      const piece = this.#isHead ? { done: true as const } : pieces.next();
      if (piece.done === true) {
        this.#isFreed = true;
        this.#wire.finish({ closes: this.#closes, isHead: this.#isHead });
        this.#end();
        // Other requests have their turn between two pieces, also if this client reads fast.
      } else if (this.#wire.writePiece(piece.value, next)) setImmediate(next);
    };
    next();
  }

  /**
   * Reads the body. The sink must use a body of up to {@link MAX_TYPICAL_BYTES} synchronously. It may keep a larger one
   * until {@link releaseBody}.
   */
  readBody(rules: BodyRules, sink: BodySink): void {
    this.#body = (chunk, isLast) => {
      if (this.#reader !== null) this.#reader.take(chunk, isLast);
      else if (chunk.length > rules.maxBytes) sink('too_large');
      else if (isLast && chunk.length <= MAX_TYPICAL_BYTES) sink(chunk);
      else {
        this.#reader = new BodyReader(rules, clientOf(this.clientAddress), this.startedAt, sink, () =>
          this.#keepOpen(),
        );
        this.#reader.take(chunk, isLast);
      }
    };
    this.#receive(true);
  }

  /** Discards the body. Needed if the answer comes later and nothing reads the body. */
  ignoreBody(): void {
    this.#receive(false);
  }

  /** Frees the memory of a body that came in pieces. */
  releaseBody(): void {
    this.#reader?.release();
  }

  /**
   * Keeps the memory of the body, and more for the answer, until the client has taken the answer. It has as long for that
   * as for sending a body.
   */
  holdUntilSent(more: BodyReservation): void {
    this.#held = more;
  }

  /** Reports the answer to a line of this batch. */
  lineAnswered(line: Answered): void {
    this.#owner.lineAnswered(line);
  }

  /**
   * Gives the wire to somebody who answers in pieces. The body must have been read.
   *
   * @returns `null` if the client has disconnected
   */
  handOver(): Wire | null {
    if (this.#isOver) return null;
    this.#isFreed = true;
    this.#end();
    return this.#wire;
  }

  get #closes(): boolean {
    return this.#isLast || this.#owner.isLeaving;
  }

  #receive(isWanted: boolean): void {
    this.#isReceiving = true;
    this.#wire.receive((chunk, isLast) => {
      if (isLast) this.#isBodyDue = false;
      if (this.#isOver) this.#discard(chunk.length, isLast);
      else this.#body?.(chunk, isLast);
    }, isWanted);
  }

  #keepOpen(): void {
    if (!this.#isFreed) this.#wire.keepOpen();
  }

  #write(answer: WireAnswer): void {
    this.#isFreed = true;
    if (this.#held === null) this.#wire.write(answer);
    else this.#writeHeld(answer);
  }

  #writeHeld(answer: WireAnswer): void {
    this.#discardTimer = setTimeout(() => this.#wire.cut(), this.#owner.bodyTimeoutMs);
    const sent = () => {
      this.#free();
      this.#release();
    };
    this.#wire.write({ ...answer, sent });
  }

  #writeEarly(answer: WireAnswer): void {
    this.#wire.writeEarly(answer);
    this.#discardTimer = setTimeout(() => this.#close(), this.#owner.bodyTimeoutMs);
  }

  #discard(bytes: number, isLast: boolean): void {
    if (this.#isFreed) return;
    if (this.#early !== null) {
      const early = this.#early;
      this.#early = null;
      if (isLast) {
        this.#write(early);
        return;
      }
      this.#writeEarly(early);
    }
    // So that it is no more pieces than a body may have.
    this.#discarded += Math.max(bytes, MAX_DISCARDED_BYTES / MAX_PIECES);
    // Deferred: what was written in this turn is sent at its end, and closing now would discard it.
    if (isLast || this.#discarded > MAX_DISCARDED_BYTES) setImmediate(() => this.#close());
  }

  #close(): void {
    if (this.#isFreed) return;
    this.#free();
    this.#wire.close();
  }

  #free(): void {
    this.#isFreed = true;
    if (this.#discardTimer !== null) clearTimeout(this.#discardTimer);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#held === null) this.#release();
    this.#owner.ended(this);
  }

  #release(): void {
    this.#reader?.release();
    this.#held?.release();
  }
}
