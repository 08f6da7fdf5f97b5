import type { Writable } from 'node:stream';

const LF = 0x0a;

/** One line of a stream, or the notice of one that was too long. */
export type Line =
  | { readonly kind: 'line'; /** With its end, if it has one. */ readonly bytes: Buffer }
  | { readonly kind: 'too long' };

/**
 * Splits a stream into lines. Of a line that is too long nothing is kept, and it is reported once, when the limit is
 * passed. The source is read only as fast as the lines are taken.
 *
 * @param maxBytes of a line, with its end
 */
export async function* readLines(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line> {
  let pieces: Buffer[] = [];
  let length = 0;
  let isSkipping = false;
  for await (const chunk of source) {
    let start = 0;
    while (start < chunk.length) {
      const end = chunk.indexOf(LF, start) + 1;
      const piece = chunk.subarray(start, end === 0 ? chunk.length : end);
      start += piece.length;
      if (!isSkipping && length + piece.length > maxBytes) {
        yield { kind: 'too long' };
        [pieces, length, isSkipping] = [[], 0, true];
      }
      if (!isSkipping) {
        pieces.push(piece);
        length += piece.length;
      }
      if (end === 0) continue;
      if (!isSkipping) yield { kind: 'line', bytes: Buffer.concat(pieces, length) };
      [pieces, length, isSkipping] = [[], 0, false];
    }
  }
  if (length > 0) yield { kind: 'line', bytes: Buffer.concat(pieces, length) };
}

/** Splits a line into its text and its end, `\n` or `\r\n`. */
export function splitEnd(line: Buffer): { readonly content: Buffer; readonly end: Buffer } {
  const hasEnd = line.at(-1) === LF;
  const length = line.length - (hasEnd ? (line.at(-2) === 0x0d ? 2 : 1) : 0);
  return { content: line.subarray(0, length), end: line.subarray(length) };
}

/** Writes to a stream, and resolves when it takes more, or never will. */
export function write(stream: Writable, bytes: Buffer | string): Promise<void> {
  if (stream.destroyed || stream.write(bytes)) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

/**
 * The standard output of a relay: what a server sends, as it is, and lines of our own between its lines.
 */
export class Output {
  readonly #stream: Writable;
  #isAtLineStart = true;
  /** Lines that wait for the end of a line of the server, and their writers. */
  #waiting: { readonly line: string; readonly written: (done: Promise<void>) => void }[] = [];

  constructor(stream: Writable) {
    // Each answer that waits is a listener.
    this.#stream = stream.setMaxListeners(0);
  }

  /** Passes on a piece of what the server sends. Resolves when more is wanted. */
  async forward(chunk: Buffer): Promise<void> {
    const end = this.#waiting.length === 0 ? 0 : chunk.lastIndexOf(LF) + 1;
    if (end > 0) {
      this.#stream.write(chunk.subarray(0, end));
      this.#isAtLineStart = true;
      this.#flush();
    }
    const rest = chunk.subarray(end);
    if (rest.length > 0) this.#isAtLineStart = rest.at(-1) === LF;
    await write(this.#stream, rest);
  }

  /** Writes a line of our own as soon as no line of the server is unfinished. Resolves when more is wanted. */
  insert(line: string): Promise<void> {
    if (this.#isAtLineStart) return write(this.#stream, `${line}\n`);
    return new Promise((resolve) => this.#waiting.push({ line, written: resolve }));
  }

  /** Says that the server sends no more. Resolves when everything is written. */
  async end(): Promise<void> {
    if (this.#waiting.length > 0) this.#stream.write('\n');
    this.#isAtLineStart = true;
    this.#flush();
    await new Promise<void>((resolve) => this.#stream.write('', () => resolve()));
  }

  #flush(): void {
    const lines = this.#waiting;
    this.#waiting = [];
    for (const { line, written } of lines) written(write(this.#stream, `${line}\n`));
  }
}
