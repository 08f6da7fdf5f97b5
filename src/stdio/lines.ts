import { Buffer } from 'node:buffer';

/** What comes out of {@link Lines}. */
export type Piece =
  /** A whole line, without its line feed. */
  | { readonly kind: 'line'; readonly bytes: Buffer }
  /** The beginning of a line that is longer than the limit. */
  | { readonly kind: 'long'; readonly bytes: Buffer }
  /** More of such a line, with its line feed if this is its end. */
  | { readonly kind: 'rest'; readonly bytes: Buffer; readonly ends: boolean };

const LINE_FEED = 0x0a;
const FIRST_BYTES = 4096;

/**
 * Splits bytes into lines. Holds at most one line, and no more of it than the limit: of a longer one, all pieces are
 * passed on as they come.
 */
export class Lines {
  readonly #maxBytes: number;
  /** What has come of the line that is not complete. */
  #held = Buffer.alloc(0);
  #length = 0;
  #isLong = false;

  /** @param maxBytes of the longest line, without its line feed */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether a part of a long line was passed on, and its end has not come. */
  get isWithinLine(): boolean {
    return this.#isLong;
  }

  /** Takes the next bytes. The pieces are only valid until the next call. */
  *push(chunk: Buffer): Generator<Piece> {
    let from = 0;
    while (from < chunk.length) {
      const feed = chunk.indexOf(LINE_FEED, from);
      const ends = feed >= 0;
      const part = chunk.subarray(from, ends ? feed : chunk.length);
      from = ends ? feed + 1 : chunk.length;
      if (this.#isLong) {
        this.#isLong = !ends;
        // With the line feed, which follows in the chunk.
        yield { kind: 'rest', bytes: ends ? chunk.subarray(from - part.length - 1, from) : part, ends };
      } else if (this.#length + part.length > this.#maxBytes) {
        const bytes = this.#length === 0 ? part : Buffer.concat([this.#take(), part]);
        this.#isLong = true;
        yield { kind: 'long', bytes };
        if (!ends) continue;
        this.#isLong = false;
        yield { kind: 'rest', bytes: chunk.subarray(from - 1, from), ends };
      } else if (!ends) this.#hold(part);
      else if (this.#length === 0) yield { kind: 'line', bytes: part };
      else {
        this.#hold(part);
        yield { kind: 'line', bytes: this.#take() };
      }
    }
  }

  /** What has come of the last line, where no line feed ends it; empty if nothing has. */
  end(): Buffer {
    return this.#take();
  }

  #take(): Buffer {
    const bytes = this.#held.subarray(0, this.#length);
    this.#length = 0;
    // A large buffer is not kept for lines that are small.
    if (this.#held.length > FIRST_BYTES) this.#held = Buffer.alloc(0);
    return bytes;
  }

  /** Copies: a piece of one byte could hold the whole buffer that it came in. */
  #hold(part: Buffer): void {
    const needed = this.#length + part.length;
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
