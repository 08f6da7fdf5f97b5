import type { Buffer } from 'node:buffer';
import { decodeUtf8 } from '#platform';

/**
 * The text of a file that a person has written: without the byte order mark that some editors put before it, and without white
 * space at its end. What is signed, and what is compared with it, is read to the byte instead.
 *
 * @throws Error that says what it is, if it is not UTF-8
 */
export function writtenText(bytes: Buffer): string {
  const text = decodeUtf8(bytes);
  if (text !== null) return text.replace(/^\ufeff/, '').trimEnd();
  const [first = 0, second = 0] = bytes;
  const hasMark = Math.min(first, second) === 0xfe && Math.max(first, second) === 0xff;
  throw new Error(`it is ${hasMark ? 'UTF-16' : 'not UTF-8'}, expected UTF-8`);
}
