import { Buffer } from 'node:buffer';
import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** What comes out of {@link Lines}. */
export type Piece =
  /** A whole line, without its line feed. */
  | { readonly kind: 'line'; readonly bytes: Buffer }
  /** The beginning of a line that is longer than the limit; empty if all of it is in the next piece. */
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
      const end = ends ? feed : chunk.length;
      const part = chunk.subarray(from, end);
      if (!this.#isLong && this.#length + part.length > this.#maxBytes) {
        this.#isLong = true;
        yield { kind: 'long', bytes: this.#take() };
      }
      if (this.#isLong) {
        this.#isLong = !ends;
        // With its line feed.
        yield { kind: 'rest', bytes: chunk.subarray(from, ends ? end + 1 : end), ends };
      } else if (ends && this.#length === 0) yield { kind: 'line', bytes: part };
      else {
        this.#hold(part);
        if (ends) yield { kind: 'line', bytes: this.#take() };
      }
      from = ends ? end + 1 : end;
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

/** So many answers of a relay wait for the end of a line of the server; then the client is not read until it comes. */
const MAX_HELD = 1000;

/** What a client hears over stdio: what the server says, and answers of the relay between its lines. */
export class Output {
  readonly #stream: Writable;
  readonly #lines: Lines;
  readonly #read: (line: Buffer) => Buffer;
  #held: string[] = [];
  #onLineEnd: () => void = () => undefined;

  /**
   * @param maxBytes of the longest line of the server that is read; longer ones pass unread
   * @param read what the client gets of a line
   */
  constructor(stream: Writable, maxBytes: number, read = (line: Buffer) => line) {
    // Each answer that waits is a listener.
    this.#stream = stream.setMaxListeners(0);
    this.#lines = new Lines(maxBytes);
    this.#read = read;
  }

  /** Passes on what the server has said. Resolves when more is wanted. */
  async take(chunk: Buffer): Promise<void> {
    for (const piece of this.#lines.push(chunk)) {
      const isLine = piece.kind === 'line';
      // A copy: the piece is only valid until the next one.
      await write(this.#stream, Buffer.concat(isLine ? [this.#read(piece.bytes), LF] : [piece.bytes]));
      if (isLine || (piece.kind === 'rest' && piece.ends)) await this.#release();
    }
  }

  /** Says something to the client as soon as no line of the server is unfinished. Resolves when the next may come. */
  async insert(line: string): Promise<void> {
    this.#held.push(`${line}\n`);
    if (!this.#lines.isWithinLine) await this.#release();
    else if (this.#held.length >= MAX_HELD) await new Promise<void>((resolve) => (this.#onLineEnd = resolve));
  }

  /** The server says no more. Passes on a last line that no line feed ends. Resolves when everything is written. */
  async end(): Promise<void> {
    const rest = this.#lines.end();
    const isOpen = rest.length > 0 || this.#lines.isWithinLine;
    if (rest.length > 0) await write(this.#stream, Buffer.from(this.#read(rest)));
    if (isOpen && this.#held.length > 0) await write(this.#stream, LF);
    await this.#release();
    await new Promise<void>((resolve) => this.#stream.write('', () => resolve()));
  }

  async #release(): Promise<void> {
    for (const line of this.#held.splice(0)) await write(this.#stream, line);
    this.#onLineEnd();
  }
}

const LF = Buffer.from('\n');

/** Writes, and waits while the reader has not taken what was written before. Does nothing if the stream is closed. */
export async function write(stream: Writable, data: string | Uint8Array): Promise<void> {
  if (!stream.writable || stream.write(data)) return;
  const over = new AbortController();
  const { signal } = over;
  // A stream that fails is closed, too; `once` then rejects.
  await Promise.race([once(stream, 'drain', { signal }), once(stream, 'close', { signal })]).catch(
    () => undefined,
  );
  over.abort();
}
