import { decodeBase64, decodeUtf8, encodeBase64, encodeUtf8, sha256Hex } from '#platform';

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
  const bytes = encodeUtf8(text);
  if (bytes.length > MAX_BYTES) return `=?sha256?${sha256Hex(text)}?=`;
  return encodeNameHeader(text);
}

/** Encodes a text as the value of the MCP header `Mcp-Name`, however long it is: plain, or as base64 of its UTF-8. */
export function encodeNameHeader(text: string): string {
  return isPlain(text) ? text : `${ENCODED_START}${encodeBase64(encodeUtf8(text))}${ENCODED_END}`;
}

/** Decodes a header value, which is plain text or base64; `null` if the base64 is malformed. */
export function decodeHeaderText(value: string): string | null {
  const isEncoded =
    value.startsWith(ENCODED_START) &&
    value.endsWith(ENCODED_END) &&
    value.length >= ENCODED_START.length + ENCODED_END.length;
  if (!isEncoded) return value;
  const bytes = decodeBase64(value.slice(ENCODED_START.length, -ENCODED_END.length));
  return bytes === null ? null : decodeUtf8(bytes);
}

/** Printable ASCII without spaces at either end and without the encoding mark: every HTTP parser reads it alike. */
function isPlain(text: string): boolean {
  return /^[!-~](?:[ -~]*[!-~])?$/.test(text) && !text.startsWith('=?');
}
