import { Buffer } from 'node:buffer';
import type { Writable } from 'node:stream';

/** A line, without its line feed. */
export interface Line {
  /** All of it; of one that is too long its first {@link END_BYTES} and its last ones. */
  readonly bytes: Buffer;
  readonly isTooLong: boolean;
}

/** How much of each end of a line that is too long is kept, to find its id. */
export const END_BYTES = 1024;
/** The pieces of a line are joined when there are more of them: each takes memory of its own. */
const MAX_PIECES = 1024;
const LINE_FEED = Buffer.from('\n');

/**
 * Splits bytes into lines: those that each piece ends. Holds at most one more, and of one that is longer than the limit only
 * its two ends.
 *
 * @param maxBytes of the longest line, without its line feed
 */
export async function* linesOf(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line[]> {
  /** What has come of the line that is not complete, and its length. */
  let [pieces, size]: [Buffer[], number] = [[], 0];
  const hold = (piece: Buffer) => {
    pieces.push(piece);
    size += piece.length;
    if (size <= maxBytes && pieces.length <= MAX_PIECES) return;
    const all = Buffer.concat(pieces);
    pieces = [size <= maxBytes ? all : endsOf(all)];
  };
  const take = (): Line => {
    const line = { bytes: Buffer.concat(pieces), isTooLong: size > maxBytes };
    [pieces, size] = [[], 0];
    return line;
  };
  for await (const chunk of source) {
    const found: Line[] = [];
    let from = 0;
    for (let feed = chunk.indexOf(LINE_FEED); feed >= 0; feed = chunk.indexOf(LINE_FEED, from)) {
      hold(chunk.subarray(from, feed));
      found.push(take());
      from = feed + 1;
    }
    hold(chunk.subarray(from));
    yield found;
  }
  // Where no line feed ends it.
  if (size > 0) yield [take()];
}

/** The two ends of bytes, of {@link END_BYTES} each at most. */
export const endsOf = (all: Buffer) =>
  Buffer.concat([all.subarray(0, END_BYTES), all.subarray(Math.max(END_BYTES, all.length - END_BYTES))]);

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
