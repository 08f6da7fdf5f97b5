import { Buffer } from 'node:buffer';
import type { Ticket } from '../load/gatekeeper.js';

/** Why a body could not be read. A body in too many pieces is `too_large`. `gone`: the client has disconnected. */
export type BodyFault = 'too_large' | 'overloaded' | 'timeout' | 'gone';

/** The limits for reading a body. */
export interface BodyRules {
  /** Grows with the body. */
  readonly ticket: Pick<Ticket, 'grow'>;
  readonly maxBytes: number;
  /** `Content-Length`; 0 if it is absent. */
  readonly announcedBytes: number;
  /** When the body must be complete, in milliseconds of `performance.now()`. */
  readonly endsAt: number;
}

/** Small pieces are gathered in segments of this size: a body of many tiny ones takes no more memory than is counted. */
const SEGMENT_BYTES = 16 * 1024;
/** Each piece takes some 200 ns, however small it is. */
export const MAX_PIECES = 65_536;
const WAKE_MS = 4000;

/**
 * Assembles a body that comes in pieces. Holds no more memory than has arrived, up to a segment: a client that announces
 * much and sends little takes little.
 */
export class BodyReader {
  readonly #rules: BodyRules;
  readonly #done: (body: Buffer | BodyFault) => void;
  readonly #keepOpen: () => void;
  #segments: Buffer[] = [];
  /** Bytes in the segments, and the number that fits into them. */
  #length = 0;
  #capacity = 0;
  #pieces = 0;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param done is given the body or the fault. {@link stop} must follow
   * @param keepOpen called every few seconds, so that the front end does not close a slow connection
   */
  constructor(rules: BodyRules, done: (body: Buffer | BodyFault) => void, keepOpen: () => void) {
    this.#rules = rules;
    this.#done = done;
    this.#keepOpen = keepOpen;
    this.#wait();
  }

  /** Appends a piece. Copies it, since the piece is only valid during the call. */
  take(chunk: Buffer, isLast: boolean): void {
    if (this.#length + chunk.length > this.#rules.maxBytes || ++this.#pieces > MAX_PIECES)
      this.#done('too_large');
    else if (!this.#append(chunk)) this.#done('overloaded');
    else if (isLast) this.#done(this.#join());
  }

  /** Waits for nothing any more. */
  stop(): void {
    clearTimeout(this.#timer);
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
    if (!this.#rules.ticket.grow(segment)) return false;
    this.#segments.push(Buffer.allocUnsafeSlow(segment));
    this.#capacity += segment;
    return true;
  }

  #join(): Buffer {
    const [only] = this.#segments;
    return only !== undefined && this.#segments.length === 1
      ? only.subarray(0, this.#length)
      : Buffer.concat(this.#segments, this.#length);
  }

  #wait(): void {
    const left = this.#rules.endsAt - performance.now();
    if (left <= 0) this.#done('timeout');
    else {
      const wake = () => {
        this.#keepOpen();
        this.#wait();
      };
      this.#timer = setTimeout(wake, Math.min(left, WAKE_MS));
    }
  }
}
