import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { decodeUtf8 } from '../protocol/utf8.js';

/** How text that a header cannot hold is written in one: as `Mcp-Name` does it. */

const ENCODED_START = '=?base64?';
const ENCODED_END = '?=';
// Proxies hold a request's headers in a few kilobytes; ids and names are far shorter.
const MAX_BYTES = 512;

/**
 * A text as the value of a header. What a header cannot hold becomes base64 of its UTF-8 (`=?base64?…?=`), and what is
 * longer than 512 bytes its digest (`=?sha256?<hex>?=`). No two texts have the same value.
 *
 * @example encodeHeaderText('search'); // 'search'
 * @example encodeHeaderText('Zürich'); // '=?base64?WsO8cmljaA==?='
 */
export function encodeHeaderText(text: string): string {
  if (text.length <= MAX_BYTES && isPlain(text)) return text;
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length > MAX_BYTES) return `=?sha256?${createHash('sha256').update(bytes).digest('hex')}?=`;
  return `${ENCODED_START}${bytes.toString('base64')}${ENCODED_END}`;
}

/** The text of a header's value, plain or as base64; `null` where it is neither. */
export function decodeHeaderText(value: string): string | null {
  const isEncoded =
    value.startsWith(ENCODED_START) &&
    value.endsWith(ENCODED_END) &&
    value.length >= ENCODED_START.length + ENCODED_END.length;
  if (!isEncoded) return value;
  const base64 = value.slice(ENCODED_START.length, -ENCODED_END.length);
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? decodeUtf8(bytes) : null;
}

/** Printable ASCII without spaces at its ends and without what marks an encoded text: one header, whoever reads it. */
function isPlain(text: string): boolean {
  return /^[!-~](?:[ -~]*[!-~])?$/.test(text) && !text.startsWith('=?');
}
