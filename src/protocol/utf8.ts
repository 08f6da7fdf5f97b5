import { isAscii } from 'node:buffer';

// ignoreBOM keeps a byte order mark in the text, where JSON.parse refuses it; by default it would vanish.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes UTF-8 strictly, without replacement characters.
 *
 * @returns the text, or `null` if the bytes are not UTF-8
 * @example decodeUtf8(Buffer.from([0xff])); // null
 */
export function decodeUtf8(bytes: Buffer): string | null {
  if (isAscii(bytes)) return bytes.toString('latin1');
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}
