import { publicKeyOf } from './did-key.js';
import { text } from './options.js';

/** Finds the public keys of issuers, at once and from memory. A resolver that must fetch keys does so in advance. */
export interface KeyResolver {
  /** Changes with the key of any DID. What was verified under the old keys, such as the receipt cache, is then forgotten. */
  readonly version: number;
  /** The DIDs that it resolves, in words, for error messages: "expected …". */
  readonly expected: string;
  /** The 32 bytes of the DID's Ed25519 key, which nobody may change; `null` if the DID does not resolve. */
  publicKeyOf(did: string): Uint8Array | null;
  /** The identifier by which a Data Integrity proof names that key. */
  verificationMethodOf(did: string): string;
}

/** The resolver that is used by default: of `did:key`, in which the name is the key. Its answers never change. */
export const DEFAULT_KEYS: KeyResolver = {
  version: 0,
  expected: 'a did:key of an Ed25519 key',
  publicKeyOf,
  verificationMethodOf: (did) => `${did}#${did.slice('did:key:'.length)}`,
};

export const did = text(DEFAULT_KEYS.expected, (value) => DEFAULT_KEYS.publicKeyOf(value) !== null);
