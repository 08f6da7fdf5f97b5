import type { FileHandle } from 'node:fs/promises';
import type { Entry } from '../entry.js';
import { readLine } from './entry-lines.js';
import { RevocationStoreError } from './store-error.js';

const CHUNK_BYTES = 1024 * 1024;
const MAX_LINE_LENGTH = 64 * 1024;

/**
 * Reads a file of entries, a part of it at a time.
 *
 * @param path for messages
 * @param take is given each line, with `null` for one that is blank or a comment
 * @returns the number of bytes of all lines, and what is behind the last line feed: it may be the beginning of a line
 * @throws {@link RevocationStoreError} `unreadable` if a line is not known
 */
export async function readLines(
  handle: FileHandle,
  path: string,
  take: (entry: Entry | null, line: string) => void,
): Promise<{ readonly length: number; readonly tail: Buffer; readonly takeLine: (line: string) => void }> {
  let lineNumber = 0;
  const takeLine = (line: string) => {
    lineNumber++;
    const entry = line.length > MAX_LINE_LENGTH ? 'unknown' : readLine(line);
    if (entry === 'unknown')
      throw new RevocationStoreError(
        'unreadable',
        `${path}:${lineNumber} is not an entry that this version knows, and nothing may be skipped. Correct the line, or start the version that wrote it.`,
      );
    take(entry, line);
  };
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let length = 0;
  for (let tail = Buffer.alloc(0); ;) {
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, length + tail.length);
    if (bytesRead === 0) return { length, tail, takeLine };
    const read = Buffer.concat([tail, chunk.subarray(0, bytesRead)]);
    const end = read.lastIndexOf('\n') + 1;
    if (end > 0) for (const line of read.toString('utf8', 0, end - 1).split('\n')) takeLine(line);
    length += end;
    tail = read.subarray(end);
    if (tail.length > 4 * MAX_LINE_LENGTH) takeLine(tail.toString('latin1'));
  }
}
