import { Buffer } from 'node:buffer';
import type { Admission } from './admission.js';

/** Why there is no body. */
export type BodyFault = 'too_large' | 'overloaded' | 'timeout';

/** How a body is read. */
export interface BodyRules {
  readonly admission: Admission;
  readonly maxBytes: number;
  /** The announced length; 0 where there is none. */
  readonly announcedBytes: number;
  /** Milliseconds after the start of the request at which the body must be there. */
  readonly timeoutMs: number;
}

/** Takes a body, or why there is none; exactly once, unless the client goes away before. */
export type BodySink = (body: Buffer | BodyFault) => void;

const FIRST_BYTES = 16 * 1024;
const WAKE_MS = 4000;

/** Gathers a body that comes in pieces. What it holds is counted until {@link release}. */
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
   * @param keepOpen is called every few seconds: a front end may close a connection that sends slowly
   */
  constructor(rules: BodyRules, startedAt: number, sink: BodySink, keepOpen: () => void) {
    this.#rules = rules;
    this.#sink = sink;
    this.#keepOpen = keepOpen;
    this.#endsAt = startedAt + rules.timeoutMs;
    this.#wait();
  }

  /** Takes a piece, which is gone after the call. */
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

  /** Stops reading and gives back the memory; the body must not be used any more. */
  release(): void {
    this.#isDone = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#rules.admission.giveBuffer(this.#heldBytes);
    this.#heldBytes = 0;
    this.#buffer = Buffer.alloc(0);
  }

  /** Doubling keeps the copies of a body in many pieces linear. */
  #grow(length: number): boolean {
    const { admission, maxBytes, announcedBytes } = this.#rules;
    const most = announcedBytes >= length ? Math.min(announcedBytes, maxBytes) : maxBytes;
    const capacity = Math.min(most, Math.max(FIRST_BYTES, 2 * length));
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
