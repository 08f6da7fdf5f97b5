import { Buffer } from 'node:buffer';
import type { BodyMemory, BodyReservation } from '../load/admission.js';

/** Why a body could not be read. A body in too many pieces is `too_large`. */
export type BodyFault = 'too_large' | 'overloaded' | 'timeout';

/** The limits for reading a body. */
export interface BodyRules {
  readonly memory: BodyMemory;
  readonly maxBytes: number;
  /** `Content-Length`; 0 if it is absent. */
  readonly announcedBytes: number;
  /** Milliseconds from the start of the request within which the body must be complete. */
  readonly timeoutMs: number;
}

/** Receives the body or the fault. Called exactly once, or never if the client disconnects first. */
export type BodySink = (body: Buffer | BodyFault) => void;

/** Small pieces are gathered in segments of this size: a body of many tiny ones takes no more memory than is counted. */
const SEGMENT_BYTES = 16 * 1024;
/** Each piece takes some 200 ns, however small it is. */
export const MAX_PIECES = 65_536;
const WAKE_MS = 4000;

/**
 * Assembles a body that comes in pieces. Holds no more memory than has arrived, up to a segment: a client that announces
 * much and sends little takes little. The memory counts towards the share of its client until {@link release}.
 */
export class BodyReader {
  readonly #rules: BodyRules;
  readonly #sink: BodySink;
  readonly #keepOpen: () => void;
  readonly #endsAt: number;
  readonly #reservation: BodyReservation;
  #segments: Buffer[] = [];
  /** Bytes in the segments, and the number that fits into them. */
  #length = 0;
  #capacity = 0;
  #pieces = 0;
  #timer: NodeJS.Timeout | undefined;
  #isDone = false;

  /**
   * @param client who sends the body, as {@link clientOf} names it
   * @param startedAt when the request came, in milliseconds of `performance.now()`
   * @param keepOpen called every few seconds, so that the front end does not close a slow connection
   */
  constructor(rules: BodyRules, client: string, startedAt: number, sink: BodySink, keepOpen: () => void) {
    this.#rules = rules;
    this.#reservation = rules.memory.reserve(client);
    this.#sink = sink;
    this.#keepOpen = keepOpen;
    this.#endsAt = startedAt + rules.timeoutMs;
    this.#wait();
  }

  /** Appends a piece. Copies it, since the piece is only valid during the call. */
  take(chunk: Buffer, isLast: boolean): void {
    if (this.#isDone) return;
    if (this.#length + chunk.length > this.#rules.maxBytes || ++this.#pieces > MAX_PIECES) {
      this.#finish('too_large');
      return;
    }
    if (!this.#append(chunk)) {
      this.#finish('overloaded');
      return;
    }
    if (isLast) this.#finish(this.#join());
  }

  /** Stops reading and frees the memory. Do not use the body afterwards. */
  release(): void {
    this.#isDone = true;
    clearTimeout(this.#timer);
    this.#reservation.release();
    this.#segments = [];
  }

  /** @returns false if there is no memory for it */
  #append(chunk: Buffer): boolean {
    const room = this.#capacity - this.#length;
    const more = chunk.length - room;
    if (more > 0 && !this.#extend(more)) return false;
    // What does not fit into the rest of the last segment begins the new one.
    const fits = Math.min(room, chunk.length);
    if (fits > 0) {
      const last = this.#segments.at(more > 0 ? -2 : -1) as Buffer;
      last.set(chunk.subarray(0, fits), last.length - room);
    }
    if (more > 0) this.#segments.at(-1)?.set(chunk.subarray(fits));
    this.#length += chunk.length;
    return true;
  }

  /** Adds a segment for at least this many bytes. */
  #extend(bytes: number): boolean {
    const announced = this.#rules.announcedBytes - this.#capacity;
    const size = announced >= bytes ? Math.min(announced, SEGMENT_BYTES) : SEGMENT_BYTES;
    const segment = Math.max(bytes, size);
    if (!this.#reservation.take(segment)) return false;
    this.#segments.push(Buffer.allocUnsafeSlow(segment));
    this.#capacity += segment;
    return true;
  }

  #join(): Buffer {
    const [only] = this.#segments;
    const body =
      only !== undefined && this.#segments.length === 1
        ? only.subarray(0, this.#length)
        : Buffer.concat(this.#segments, this.#length);
    this.#segments = [];
    return body;
  }

  #wait(): void {
    const left = this.#endsAt - performance.now();
    if (left <= 0) {
      this.#finish('timeout');
      return;
    }
    this.#timer = setTimeout(
      () => {
        this.#keepOpen();
        this.#wait();
      },
      Math.min(left, WAKE_MS),
    );
  }

  #finish(body: Buffer | BodyFault): void {
    this.#isDone = true;
    clearTimeout(this.#timer);
    this.#sink(body);
  }
}
