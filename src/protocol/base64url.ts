// Imported, as in all hot code: the global Buffer is an accessor, and each use of it costs a call.
import { Buffer } from 'node:buffer';

/**
 * Decodes strict base64url: the RFC 4648 §5 alphabet, no padding, no white space, unused trailing bits zero.
 *
 * @param isUrlSafe what {@link isUrlSafeText} says of the text, or of a longer text that contains it
 * @returns the bytes, or `null` if the text is not strict base64url
 * @see RFC 7515 §2, RFC 4648 §5
 * @example decodeBase64url('aGk'); // <Buffer 68 69>
 * @example decodeBase64url('aGl'); // null: a trailing bit is set
 */
export function decodeBase64url(text: string, isUrlSafe = isUrlSafeText(text)): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return isUrlSafe && isComplete(text, bytes.length) ? bytes : null;
}

let scratch = Buffer.allocUnsafeSlow(16 * 1024);

/**
 * Decodes like {@link decodeBase64url}, but into memory that the next call overwrites. For bytes that are parsed at
 * once and then not used any more.
 */
export function decodeBase64urlBriefly(text: string, isUrlSafe = isUrlSafeText(text)): Buffer | null {
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
 * @example encodeBase64url(Buffer.from('hi')); // 'aGk'
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
