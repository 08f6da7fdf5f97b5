import type { Writable } from 'node:stream';
import { Lines } from '../../stdio/lines.js';
import { write } from '../../stdio/write.js';

const LF = 0x0a;

/** One line of a stream, or the notice of one that was too long. */
export type Line =
  | {
      readonly kind: 'line';
      /** Without its line feed. Valid until the next line is asked for. */
      readonly bytes: Buffer;
      /** Its line feed; empty if the stream ends without one. */
      readonly end: string;
    }
  | { readonly kind: 'too long' };

/**
 * Splits a stream into lines. Of a line that is too long nothing is kept, and it is reported once, when the limit is
 * passed. The source is read only as fast as the lines are taken.
 *
 * @param maxBytes of a line, with its line feed
 */
export async function* readLines(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line> {
  const lines = new Lines(maxBytes - 1);
  for await (const chunk of source) {
    for (const { kind, bytes } of lines.push(chunk)) {
      if (kind === 'line') yield { kind, bytes, end: '\n' };
      else if (kind === 'long') yield { kind: 'too long' };
    }
  }
  const rest = lines.end();
  if (rest.length > 0) yield { kind: 'line', bytes: rest, end: '' };
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
