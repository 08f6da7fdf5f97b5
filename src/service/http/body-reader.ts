import { Buffer } from 'node:buffer';
import type { Ticket } from '../load/gatekeeper.js';

/** Why a body could not be read. A body in too many pieces is `too_large`. `gone`: the client has disconnected. */
export type BodyFault = 'too_large' | 'overloaded' | 'timeout' | 'gone';

/** The limits for reading a body. */
export interface BodyRules {
  /** Grows with the body; `null` if the body is discarded. */
  readonly ticket: Pick<Ticket, 'grow'> | null;
  readonly maxBytes: number;
  /** When the body must be complete, in milliseconds of `performance.now()`. */
  readonly endsAt: number;
}

/** What V8 needs for a piece beside its bytes: a body of many tiny ones takes no more memory than is counted. */
const BYTES_PER_PIECE = 512;
/** Each piece takes some 200 ns, however small it is. */
export const MAX_PIECES = 65_536;
const WAKE_MS = 4000;

/** Assembles or discards a body that comes in pieces. Holds what has arrived: a client that announces much and sends little takes little. */
export class BodyReader {
  readonly #rules: BodyRules;
  readonly #done: (body: Buffer | BodyFault) => void;
  readonly #keepOpen: () => void;
  readonly #kept: Buffer[] = [];
  #pieces = 0;
  #length = 0;
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
    const { ticket, maxBytes } = this.#rules;
    this.#length += chunk.length;
    if (this.#length > maxBytes || ++this.#pieces > MAX_PIECES) this.#done('too_large');
    else if (ticket?.grow(chunk.length + BYTES_PER_PIECE) === false) this.#done('overloaded');
    else {
      if (ticket !== null) {
        // Not `Buffer.from`: a tiny piece would keep 8 KiB that others share.
        const piece = Buffer.allocUnsafeSlow(chunk.length);
        piece.set(chunk);
        this.#kept.push(piece);
      }
      if (isLast) this.#done(Buffer.concat(this.#kept));
    }
  }

  /** Waits for nothing any more. */
  stop(): void {
    clearTimeout(this.#timer);
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
