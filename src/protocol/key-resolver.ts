import { publicKeyOf } from './did-key.js';
import { documentUrlOf } from './did-web.js';
import { text } from './options.js';

/** Finds the public keys of issuers, at once and from memory. A resolver that must fetch keys does so in advance. */
export interface KeyResolver {
  /** Changes with the keys of any DID. What was verified under the old ones, such as the receipt cache, is then forgotten. */
  readonly version: number;
  /** How many DIDs there are of which {@link whenReady} is not `null`. */
  readonly opening: number;
  /** The DIDs that it resolves, in words, for error messages: "expected …". */
  readonly expected: string;
  /** The 32 bytes of the Ed25519 key that is in the DID itself, which nobody may change; `null` if there is none. */
  publicKeyOf(did: string): Uint8Array | null;
  /**
   * The keys under one of which a signature by the DID must verify, like those of {@link publicKeyOf}: none if the DID does
   * not resolve, `null` if it is not known what they are.
   *
   * @param kid what the header of the JWT says of the key, if it says something
   */
  keysOf(did: string, kid: string | null): readonly Uint8Array[] | null;
  /** Resolves when what is known of the DID has been asked for once, after a few seconds at most; `null` if it has. */
  whenReady(did: string): Promise<void> | null;
  /** The identifier by which a Data Integrity proof names that key. */
  verificationMethodOf(did: string): string;
}

/** The resolver that is used by default: of `did:key`, in which the name is the key. Its answers never change. */
export const DEFAULT_KEYS: KeyResolver = {
  version: 0,
  opening: 0,
  expected: 'a did:key of an Ed25519 key',
  publicKeyOf,
  keysOf: (did) => {
    const key = publicKeyOf(did);
    return key === null ? [] : [key];
  },
  whenReady: () => null,
  verificationMethodOf: (did) => `${did}#${did.slice('did:key:'.length)}`,
};

/** The DIDs of {@link isDid}, in words, for error messages: "expected …". */
export const DID_FORMS = `${DEFAULT_KEYS.expected}, or a did:web`;

/** Whether a text is a DID that a verifier may resolve: a `did:web` only with a row of its operator. */
export function isDid(text: string): boolean {
  return publicKeyOf(text) !== null || documentUrlOf(text) !== null;
}

export const anyDid = text(DID_FORMS, isDid);

export const did = text(DEFAULT_KEYS.expected, (value) => DEFAULT_KEYS.publicKeyOf(value) !== null);
