import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { decodeUtf8 } from '../protocol/utf8.js';

/** Encodes text that a header cannot hold as it is, in the same way as the MCP header `Mcp-Name`. */

const ENCODED_START = '=?base64?';
const ENCODED_END = '?=';
// Proxies limit a request's headers to a few kilobytes. Ids and names are far shorter than this.
const MAX_BYTES = 512;

/**
 * Encodes a text as the value of a header. A text that a header cannot hold becomes base64 of its UTF-8
 * (`=?base64?…?=`). A text longer than 512 bytes becomes its SHA-256 digest (`=?sha256?<hex>?=`). No two texts have
 * the same encoding.
 *
 * @example encodeHeaderText('search'); // 'search'
 * @example encodeHeaderText('Zürich'); // '=?base64?WsO8cmljaA==?='
 */
export function encodeHeaderText(text: string): string {
  if (text.length <= MAX_BYTES && isPlain(text)) return text;
  const bytes = Buffer.from(text);
  if (bytes.length > MAX_BYTES) return `=?sha256?${createHash('sha256').update(bytes).digest('hex')}?=`;
  return encodeNameHeader(text);
}

/** Encodes a text as the value of the MCP header `Mcp-Name`, however long it is: plain, or as base64 of its UTF-8. */
export function encodeNameHeader(text: string): string {
  return isPlain(text) ? text : `${ENCODED_START}${Buffer.from(text).toString('base64')}${ENCODED_END}`;
}

/** Decodes a header value, which is plain text or base64; `null` if the base64 is malformed. */
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

/** Printable ASCII without spaces at either end and without the encoding mark: every HTTP parser reads it alike. */
function isPlain(text: string): boolean {
  return /^[!-~](?:[ -~]*[!-~])?$/.test(text) && !text.startsWith('=?');
}
