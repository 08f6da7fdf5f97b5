import { decodeBase58 } from './did-key.js';

const PREFIX = 'did:key:z';
// 0x80 0x24 is the multicodec code of p256-pub as an unsigned varint. It and a compressed point are 48 base58 digits.
const DID_LENGTH = PREFIX.length + 48;

/**
 * The P-256 public key that a `did:key` names. Status lists alone may be signed by one.
 *
 * @returns the point in its compressed form, 33 bytes, which nobody has looked for on the curve; `null` for anything else
 * @see W3C did:key §3.1.3
 */
export function p256KeyOf(did: string): Uint8Array | null {
  if (did.length !== DID_LENGTH || !did.startsWith(PREFIX)) return null;
  const bytes = decodeBase58(did.slice(PREFIX.length));
  if (bytes?.length !== 35 || bytes[0] !== 0x80 || bytes[1] !== 0x24) return null;
  return bytes[2] === 2 || bytes[2] === 3 ? bytes.slice(2) : null;
}
