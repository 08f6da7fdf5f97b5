// `#platform` in package.json where there is no Node: browsers, workers. Same functions as platform-node.ts, which
// describes them.
import { sha256 } from '@noble/hashes/sha2';
import { base64, base64urlnopad, hex } from '@scure/base';

export type Bytes = Uint8Array;

export function decodeBase64url(text: string, _isUrlSafe?: boolean): Bytes | null {
  return decode(base64urlnopad, text);
}

export const decodeBase64urlBriefly = decodeBase64url;

/** Whether decoding needs no look at the text as a whole: here it never does. */
export function isUrlSafeText(_text: string): boolean {
  return true;
}

export function encodeBase64url(bytes: Uint8Array): string {
  return base64urlnopad.encode(bytes);
}

export function encodeBase64(bytes: Uint8Array): string {
  return base64.encode(bytes);
}

export function decodeBase64(text: string): Bytes | null {
  return decode(base64, text);
}

// It refuses what is not in the alphabet, padding that is too much or missing, and unused bits that are not zero.
function decode(coder: typeof base64, text: string): Bytes | null {
  try {
    return coder.decode(text);
  } catch {
    return null;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export function decodeUtf8(bytes: Bytes): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

export function encodeUtf8(text: string): Bytes {
  return encoder.encode(text);
}

export function utf8Length(text: string): number {
  return encoder.encode(text).length;
}

export function concatBytes(chunks: readonly Uint8Array[], size: number): Bytes {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

// WebCrypto's digest is asynchronous, and receipts name their parents by digest wherever they are read.
export function sha256Hex(text: string): string {
  return hex.encode(sha256(encoder.encode(text)));
}

export function detachText(text: string): string {
  return text;
}
