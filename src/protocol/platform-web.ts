// `#platform` in package.json where there is no Node (browsers, workers). platform-node.ts describes the same functions.
import { sha256 } from '@noble/hashes/sha2';
import { bytesToHex } from '@noble/hashes/utils';

export type Bytes = Uint8Array;

export function decodeBase64url(text: string): Bytes | null {
  return decode(text.replaceAll('-', '+').replaceAll('_', '/'), text, encodeBase64url);
}

export function encodeBase64url(bytes: Uint8Array): string {
  return encodeBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

export function encodeBase64(bytes: Uint8Array): string {
  let text = '';
  // In pieces: an engine takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export function decodeBase64(text: string): Bytes | null {
  return decode(text, text, encodeBase64);
}

function decode(base64: string, text: string, encode: (bytes: Bytes) => string): Bytes | null {
  try {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    // `atob` skips white space and unused bits, and takes text with and without padding.
    return encode(bytes) === text ? bytes : null;
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
  return bytesToHex(sha256(encoder.encode(text)));
}

export function detachText(text: string): string {
  return text;
}
