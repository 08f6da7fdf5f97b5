import { base58 } from '@scure/base';

export const PUBLIC_KEY_BYTES = 32;

const PREFIX = 'did:key:z';
// 0xed 0x01 is the multicodec code of ed25519-pub as an unsigned varint. 34 bytes that start with it are always 47 base58
// digits. Decoding a longer text would only cost time.
const DID_LENGTH = PREFIX.length + 47;

// The same agents and people appear in many chains, and decoding base58 costs far more than a look-up.
const known = new Map<string, Uint8Array>();
const MAX_KNOWN = 4096;

/**
 * The Ed25519 public key that a `did:key` names.
 *
 * @param did `did:key:z` and the base58btc form of `0xed 0x01` and 32 key bytes; no fragment, path or query
 * @returns 32 bytes, which are shared: nobody may change them; or `null` for anything else
 * @see W3C did:key §3.1.3
 * @example publicKeyOf('did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw'); // 32 bytes, d75a98…
 */
export function publicKeyOf(did: string): Uint8Array | null {
  const before = known.get(did);
  if (before !== undefined) return before;
  if (did.length !== DID_LENGTH || !did.startsWith(PREFIX)) return null;
  const bytes = decodeBase58(did.slice(PREFIX.length));
  if (bytes?.length !== 2 + PUBLIC_KEY_BYTES || bytes[0] !== 0xed || bytes[1] !== 0x01) return null;
  const key = bytes.slice(2);
  if (known.size === MAX_KNOWN) known.clear();
  known.set(did, key);
  return key;
}

/**
 * The `did:key` of an Ed25519 public key.
 *
 * @throws RangeError if the key is not 32 bytes
 * @example didKeyOf(publicKey); // 'did:key:z6Mk…'
 */
export function didKeyOf(publicKey: Uint8Array): string {
  if (publicKey.length !== PUBLIC_KEY_BYTES)
    throw new RangeError(
      `an Ed25519 public key has ${PUBLIC_KEY_BYTES} bytes; this one has ${publicKey.length}`,
    );
  return PREFIX + base58.encode(Uint8Array.of(0xed, 0x01, ...publicKey));
}

/**
 * The bytes of base58btc digits. Takes time by the square of their number: the caller limits it.
 *
 * @returns `null` if a character is no digit
 * @see draft-msporny-base58-03 §4
 * @example decodeBase58('15Q'); // 0, 255
 */
export function decodeBase58(text: string): Uint8Array | null {
  try {
    return base58.decode(text);
  } catch {
    return null;
  }
}
