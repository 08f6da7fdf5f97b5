import { Buffer } from 'node:buffer';
import type { Admission } from './admission.js';

/** Why a body could not be read. */
export type BodyFault = 'too_large' | 'overloaded' | 'timeout';

/** The limits for reading a body. */
export interface BodyRules {
  readonly admission: Admission;
  readonly maxBytes: number;
  /** `Content-Length`; 0 if it is absent. */
  readonly announcedBytes: number;
  /** Milliseconds from the start of the request within which the body must be complete. */
  readonly timeoutMs: number;
}

/** Receives the body or the fault. Called exactly once, or never if the client disconnects first. */
export type BodySink = (body: Buffer | BodyFault) => void;

const FIRST_BYTES = 16 * 1024;
const WAKE_MS = 4000;

/** Assembles a body that comes in pieces. Its memory counts towards the limits of admission until {@link release}. */
export class BodyReader {
  readonly #rules: BodyRules;
  readonly #sink: BodySink;
  readonly #keepOpen: () => void;
  readonly #endsAt: number;
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;
  #heldBytes = 0;
  #timer: NodeJS.Timeout | null = null;
  #isDone = false;

  /**
   * @param startedAt when the request came, in milliseconds of `performance.now()`
   * @param keepOpen called every few seconds, so that the front end does not close a slow connection
   */
  constructor(rules: BodyRules, startedAt: number, sink: BodySink, keepOpen: () => void) {
    this.#rules = rules;
    this.#sink = sink;
    this.#keepOpen = keepOpen;
    this.#endsAt = startedAt + rules.timeoutMs;
    this.#wait();
  }

  /** Appends a piece. Copies it, since the piece is only valid during the call. */
  take(chunk: Buffer, isLast: boolean): void {
    if (this.#isDone) return;
    const length = this.#length + chunk.length;
    if (length > this.#rules.maxBytes) {
      this.#finish('too_large');
      return;
    }
    if (length > this.#buffer.length && !this.#grow(length)) {
      this.#finish('overloaded');
      return;
    }
    this.#buffer.set(chunk, this.#length);
    this.#length = length;
    if (isLast) this.#finish(this.#buffer.subarray(0, length));
  }

  /** Stops reading and frees the memory. Do not use the body afterwards. */
  release(): void {
    this.#isDone = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#rules.admission.giveBuffer(this.#heldBytes);
    this.#heldBytes = 0;
    this.#buffer = Buffer.alloc(0);
  }

  /** Enlarges the buffer. Doubling its size keeps the total copying linear in the length of the body. */
  #grow(length: number): boolean {
    const { admission, maxBytes, announcedBytes } = this.#rules;
    const maxCapacity = announcedBytes >= length ? Math.min(announcedBytes, maxBytes) : maxBytes;
    const capacity = Math.min(maxCapacity, Math.max(FIRST_BYTES, 2 * length));
    if (!admission.takeBuffer(capacity - this.#heldBytes)) return false;
    this.#heldBytes = capacity;
    const larger = Buffer.allocUnsafeSlow(capacity);
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
    return true;
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
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sink(body);
  }
}
