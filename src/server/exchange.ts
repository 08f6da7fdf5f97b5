import { Buffer } from 'node:buffer';
import { performance } from 'node:perf_hooks';
import type { HttpResponse } from 'uWebSockets.js';

/** Answers that carry more than a body. */
export interface AnswerOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the connection behind the answer. */
  readonly closes?: boolean;
}

const REASONS: Readonly<Record<number, string>> = {
  200: '200 OK',
  400: '400 Bad Request',
  401: '401 Unauthorized',
  404: '404 Not Found',
  405: '405 Method Not Allowed',
  413: '413 Payload Too Large',
  429: '429 Too Many Requests',
  500: '500 Internal Server Error',
  503: '503 Service Unavailable',
};

/**
 * One request and its answer. uWebSockets.js frees `res` when the client goes away or the answer has been written;
 * touching it afterwards ends the process, so all writing goes through here.
 */
export class Exchange {
  readonly startedAt = performance.now();
  readonly #res: HttpResponse;
  readonly #isHead: boolean;
  readonly #onEnd: (exchange: Exchange) => void;
  #isOver = false;

  /** @param onEnd called once, when the answer is written or the client is gone */
  constructor(res: HttpResponse, isHead: boolean, onEnd: (exchange: Exchange) => void) {
    this.#res = res;
    this.#isHead = isHead;
    this.#onEnd = onEnd;
    res.onAborted(() => this.#end());
  }

  /** Whether the answer is written or the client is gone. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Answers with JSON text; does nothing where the client is gone. */
  answer(status: number, json: string, { headers, closes = false }: AnswerOptions = {}): void {
    if (this.#isOver) return;
    const res = this.#res;
    res.cork(() => {
      if (status !== 200) res.writeStatus(REASONS[status] ?? String(status));
      if (headers?.['Content-Type'] === undefined) res.writeHeader('Content-Type', 'application/json');
      if (headers !== undefined)
        for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value);
      if (closes) res.writeHeader('Connection', 'close');
      if (this.#isHead) res.endWithoutBody(Buffer.byteLength(json), closes);
      else res.end(json, closes);
    });
    this.#end();
  }

  /** Answers `{ "error": … }`. */
  refuse(status: number, error: string, options?: AnswerOptions): void {
    this.answer(status, JSON.stringify({ error }), options);
  }

  /**
   * Reads the body.
   *
   * @param onBody gets the bytes, which it must not keep; or `null` as soon as there are more than `most`
   */
  readBody(most: number, onBody: (body: Buffer | null) => void): void {
    let gathered: Buffer | null = null;
    let length = 0;
    let isDone = false;
    this.#res.onData((chunk, isLast) => {
      if (isDone) return;
      if (length + chunk.byteLength > most) {
        isDone = true;
        onBody(null);
        return;
      }
      if (isLast && gathered === null) {
        isDone = true;
        onBody(Buffer.from(chunk));
        return;
      }
      // The chunk is gone after this callback; doubling keeps the copies of a body in many pieces linear.
      if (gathered === null || gathered.length < length + chunk.byteLength) {
        const larger = Buffer.allocUnsafe(
          Math.min(most, Math.max(16 * 1024, 2 * (length + chunk.byteLength))),
        );
        gathered?.copy(larger, 0, 0, length);
        gathered = larger;
      }
      gathered.set(new Uint8Array(chunk), length);
      length += chunk.byteLength;
      if (!isLast) return;
      isDone = true;
      onBody(gathered.subarray(0, length));
    });
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onEnd(this);
  }
}
