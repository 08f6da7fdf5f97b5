import { publicKeyOf } from './did-key.js';

/**
 * Finds the public keys of issuers. It answers from memory, at once: whoever fetches keys does so beforehand, as is
 * done with the status list.
 */
export interface KeyResolver {
  /**
   * Another number whenever the key of any DID is not what it was. What was verified under the old keys, above all the
   * receipt cache, is then forgotten.
   */
  readonly version: number;
  /** Which DIDs it resolves, for error messages: "expected …". */
  readonly expected: string;
  /** The 32 bytes of the DID's Ed25519 key, which nobody may change; `null` if the DID does not resolve. */
  publicKeyOf(did: string): Uint8Array | null;
  /** The identifier by which a Data Integrity proof names that key. */
  verificationMethodOf(did: string): string;
}

const DID_KEY = 'did:key:';

/** Resolves `did:key`, in which the name is the key. Its answers never change. */
const didKeys: KeyResolver = {
  version: 0,
  expected: 'a did:key of an Ed25519 key',
  publicKeyOf,
  verificationMethodOf: (did) => `${did}#${did.slice(DID_KEY.length)}`,
};

/** The resolver that is used where no other one is handed in. */
export const DEFAULT_KEYS: KeyResolver = didKeys;
