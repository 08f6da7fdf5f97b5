// What the protocol takes from Node: `#platform` in package.json. Where there is no Node, platform-web.ts takes its place.
// Imported, as in all hot code: the global Buffer is an accessor, and each use of it costs a call.
import { Buffer, isAscii } from 'node:buffer';
import { hash } from 'node:crypto';

/** Bytes as this platform decodes them. Code that is not of one platform uses them as a `Uint8Array`. */
export type Bytes = Buffer;

/**
 * Decodes strict base64url: the RFC 4648 §5 alphabet, no padding, no white space, unused trailing bits zero.
 *
 * @returns the bytes, or `null` if the text is not strict base64url
 * @see RFC 7515 §2, RFC 4648 §5
 * @example decodeBase64url('aGk'); // the bytes 68 69
 * @example decodeBase64url('aGl'); // null: a trailing bit is set
 */
export function decodeBase64url(text: string): Bytes | null {
  const bytes = Buffer.from(text, 'base64url');
  // Node's decoder skips what it does not know (then bytes are missing), and takes plain base64, and the low byte of other characters.
  if (bytes.length !== (text.length * 3) >>> 2 || utf8Length(text) !== text.length) return null;
  if (text.includes('+') || text.includes('/')) return null;
  return LAST_CHARACTERS[text.length & 3]?.includes(text.slice(-1)) === false ? null : bytes;
}
// By the characters of the last group, if it is not full: those that leave over no bit that is set. RFC 4648 §3.5
const LAST_CHARACTERS = [undefined, '', 'AQgw', 'AEIMQUYcgkosw048'];

/** Encodes bytes as unpadded base64url. RFC 4648 §5 */
export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
}

/** Encodes bytes as plain base64 with padding. RFC 4648 §4 */
export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** Decodes plain base64, with padding, in its only form; `null` if the text is something else. RFC 4648 §4 */
export function decodeBase64(text: string): Bytes | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : null;
}

// ignoreBOM keeps a byte order mark in the text, where JSON.parse refuses it; by default it would vanish.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes UTF-8 strictly, without replacement characters.
 *
 * @returns the text, or `null` if the bytes are not UTF-8
 * @example decodeUtf8(Buffer.from([0xff])); // null
 */
export function decodeUtf8(bytes: Bytes): string | null {
  if (isAscii(bytes)) return bytes.toString('latin1');
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

export function encodeUtf8(text: string): Bytes {
  return Buffer.from(text);
}

export function utf8Length(text: string): number {
  return Buffer.byteLength(text);
}

/** Puts chunks together, which have this many bytes. */
export function concatBytes(chunks: readonly Uint8Array[], size: number): Bytes {
  return Buffer.concat(chunks, size);
}

/** SHA-256 of a text in UTF-8, in lowercase hexadecimal digits. */
export function sha256Hex(text: string): string {
  return hash('sha256', text, 'hex');
}

/** The same ASCII text, in memory of its own: a slice would keep the whole text that it was cut from. */
export function detachText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
