import { Buffer } from 'node:buffer';
import type { Writable } from 'node:stream';

/** A line, without its line feed. */
export interface Line {
  /** All of it; of one that is too long its first {@link END_BYTES} and its last ones. Only valid until the next line. */
  readonly bytes: Buffer;
  readonly isTooLong: boolean;
}

/** So much of each end of a line that is too long is kept, to find its id. */
export const END_BYTES = 1024;
const FIRST_BYTES = 65_536;
const LINE_FEED = Buffer.from('\n');

/** Splits bytes into lines. Holds at most one line, and of one that is longer than the limit only its two ends. */
export class Lines {
  readonly #maxBytes: number;
  /** What has come of the line that is not complete. */
  #held = Buffer.alloc(0);
  #length = 0;
  #isTooLong = false;

  /** @param maxBytes of the longest line, without its line feed */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  *push(chunk: Buffer): Generator<Line> {
    for (let from = 0; from < chunk.length;) {
      const feed = chunk.indexOf(LINE_FEED, from);
      const end = feed < 0 ? chunk.length : feed;
      this.#hold(chunk.subarray(from, end));
      if (feed >= 0) yield this.#take();
      from = end + 1;
    }
  }

  /** The last line, where no line feed ends it. */
  *end(): Generator<Line> {
    if (this.#length > 0) yield this.#take();
  }

  #take(): Line {
    const line = { bytes: this.#held.subarray(0, this.#length), isTooLong: this.#isTooLong };
    this.#length = 0;
    this.#isTooLong = false;
    // A large buffer is not kept for lines that are small.
    if (this.#held.length > FIRST_BYTES) this.#held = Buffer.alloc(0);
    return line;
  }

  /** Copies: a piece of one byte could hold the whole buffer that it came in. */
  #hold(part: Buffer): void {
    const needed = this.#length + part.length;
    this.#isTooLong ||= needed > this.#maxBytes;
    if (this.#isTooLong) {
      const all = Buffer.concat([this.#held.subarray(0, this.#length), part]);
      const last = all.subarray(Math.max(END_BYTES, needed - END_BYTES));
      this.#held = Buffer.concat([all.subarray(0, END_BYTES), last]);
      this.#length = this.#held.length;
      return;
    }
    if (needed > this.#held.length) {
      const size = Math.min(Math.max(2 * this.#held.length, FIRST_BYTES, needed), this.#maxBytes);
      const larger = Buffer.allocUnsafeSlow(size);
      this.#held.copy(larger, 0, 0, this.#length);
      this.#held = larger;
    }
    part.copy(this.#held, this.#length);
    this.#length = needed;
  }
}

/** Says something to a client over stdio, in one line. Resolves when more may follow. */
export type Say = (line: string | Buffer) => Promise<void>;

/** Writes lines, each as a whole. */
export const sayTo =
  (stream: Writable): Say =>
  (line) =>
    write(stream, Buffer.concat([Buffer.from(line), LINE_FEED]));

/** Writes. Resolves when this, and what was written before, is out of this process, or the stream is closed. */
export async function write(stream: Writable, data: string | Uint8Array): Promise<void> {
  if (stream.writable) await new Promise<void>((resolve) => stream.write(data, () => resolve()));
}
