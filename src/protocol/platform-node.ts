// What the protocol takes from Node: `#platform` in package.json. Where there is no Node, platform-web.ts takes its place.
// Imported, as in all hot code: the global Buffer is an accessor, and each use of it costs a call.
import { Buffer, isAscii } from 'node:buffer';
import { hash } from 'node:crypto';

export { isPlainlyFaithful } from './faithful-json.js';

/** Bytes as this platform decodes them. Code that is not of one platform uses them as a `Uint8Array`. */
export type Bytes = Buffer;

/**
 * Decodes strict base64url: the RFC 4648 §5 alphabet, no padding, no white space, unused trailing bits zero.
 *
 * @param isUrlSafe what {@link isUrlSafeText} says of the text, or of a longer text that contains it
 * @returns the bytes, or `null` if the text is not strict base64url
 * @see RFC 7515 §2, RFC 4648 §5
 * @example decodeBase64url('aGk'); // the bytes 68 69
 * @example decodeBase64url('aGl'); // null: a trailing bit is set
 */
export function decodeBase64url(text: string, isUrlSafe = isUrlSafeText(text)): Bytes | null {
  const bytes = Buffer.from(text, 'base64url');
  return isUrlSafe && isComplete(text, bytes.length) ? bytes : null;
}

let scratch = Buffer.allocUnsafeSlow(16 * 1024);

/**
 * Decodes like {@link decodeBase64url}, but into memory that the next call overwrites. For bytes that are parsed at
 * once and then not used any more.
 */
export function decodeBase64urlBriefly(text: string, isUrlSafe = isUrlSafeText(text)): Bytes | null {
  if (scratch.length < text.length) scratch = Buffer.allocUnsafeSlow(2 * text.length);
  const length = scratch.write(text, 'base64url');
  return isUrlSafe && isComplete(text, length) ? scratch.subarray(0, length) : null;
}

/**
 * Whether a text is free of characters that Node's decoder accepts although base64url does not have them: `+` and `/`
 * of plain base64, and characters beyond ASCII, of which it uses the low byte.
 */
export function isUrlSafeText(text: string): boolean {
  return !text.includes('+') && !text.includes('/') && Buffer.byteLength(text) === text.length;
}

/**
 * Encodes bytes as unpadded base64url.
 *
 * @see RFC 4648 §5
 * @example encodeBase64url(Uint8Array.of(0x68, 0x69)); // 'aGk'
 */
export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
}

// The allowed last characters if 2 or 3 characters remain after the groups of 4: their unused bits are zero.
const LAST_OF_TWO = 'AQgw';
const LAST_OF_THREE = 'AEIMQUYcgkosw048';

/**
 * Whether a URL-safe text is strict. Node's decoder skips unknown characters and stops at padding, so the text is strict
 * if it gave the number of bytes that its length promises and its unused bits are zero.
 */
function isComplete(text: string, decodedLength: number): boolean {
  const remaining = text.length & 3;
  if (remaining === 1 || decodedLength !== (text.length * 3) >>> 2) return false;
  if (remaining === 0) return true;
  return (remaining === 2 ? LAST_OF_TWO : LAST_OF_THREE).includes(text.charAt(text.length - 1));
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

/** Encodes a text as UTF-8. */
export function encodeUtf8(text: string): Bytes {
  return Buffer.from(text);
}

/** The number of bytes of a text in UTF-8. */
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
