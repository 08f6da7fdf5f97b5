import { verifyEventually } from '#ed25519';
import { encodeUtf8 } from '#platform';
import type { SignatureCheck } from '../protocol/jwt.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { IssueError } from './issue-error.js';
import { requireSigner } from './options.js';
import type { SigningKey } from './signing-key.js';

/**
 * An Ed25519 key that signs elsewhere: in WebCrypto, an agent, a token, a service. With one, the functions that issue
 * return a promise. What it signs is verified before it is used.
 *
 * @example
 * const signer: Signer = { did: didOfJwk(jwk), sign: async (bytes) => (await kms.sign(keyId, bytes)).signature };
 */
export interface Signer {
  /** `did:key:z6Mk…` of the key. */
  readonly did: string;
  /**
   * Signs bytes as they are (Ed25519, not Ed25519ph).
   *
   * @returns the 64 bytes of the signature
   */
  sign(bytes: Uint8Array): Promise<Uint8Array> | Uint8Array;
  /** A {@link SigningKey} has it, a `Signer` does not: this tells the compiler which one returns a promise. */
  readonly toJwk?: never;
}

/** What can sign: a key in memory, or one elsewhere. */
export type AnySigner = SigningKey | Signer;

/**
 * What a key in memory has, and a {@link Signer} has not: the function that verifies at once. `instanceof` would have each
 * page that signs with WebCrypto carry what keys in memory need.
 */
export const AT_ONCE = Symbol('verifies at once');

function isInMemory(key: AnySigner): key is SigningKey {
  return (key as Partial<SigningKey> | null)?.[AT_ONCE] !== undefined;
}

/** A value that may be a promise: only for a {@link Signer}. */
export type Eventual<T> = T | Promise<T>;

/** Goes on with a value, at once if it is no promise. */
export function after<T, U>(value: Eventual<T>, next: (value: T) => Eventual<U>): Eventual<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/**
 * Runs a function of which nothing is thrown if it is for a {@link Signer}: its promise rejects instead.
 *
 * @throws IssueError `INVALID_OPTION` at once if it is neither a key nor a `Signer`
 */
export function issueWith<T>(key: AnySigner, issue: () => Eventual<T>): Eventual<T> {
  requireSigner(key);
  return isInMemory(key) ? issue() : (async () => issue())();
}

/** What verifies signatures where this key issues: at once for a key in memory. */
export function verifierFor(key: AnySigner): (checks: readonly SignatureCheck[]) => Eventual<boolean[]> {
  return isInMemory(key) ? key[AT_ONCE] : verifyEventually;
}

const SIGNATURE_BYTES = 64;

/**
 * Has an ASCII text signed.
 *
 * @throws IssueError `INVALID_KEY` if what a {@link Signer} gives is not a signature of its own DID
 */
export function signText(key: AnySigner, text: string): Eventual<Uint8Array> {
  return isInMemory(key) ? key.sign(encodeUtf8(text)) : signElsewhere(key, text);
}

async function signElsewhere(signer: Signer, text: string): Promise<Uint8Array> {
  const did: unknown = signer.did;
  const publicKey = typeof did === 'string' ? DEFAULT_KEYS.publicKeyOf(did) : null;
  if (publicKey === null) {
    throw new IssueError(
      'INVALID_KEY',
      `the did of the signer is ${JSON.stringify(String(did).slice(0, 100))}, expected ${DEFAULT_KEYS.expected}`,
      'make it with didOfJwk() from the public key',
    );
  }
  const signature: unknown = await signer.sign(encodeUtf8(text));
  if (!(signature instanceof Uint8Array) || signature.length !== SIGNATURE_BYTES) {
    const found = signature instanceof Uint8Array ? `${signature.length} bytes` : typeof signature;
    throw new IssueError(
      'INVALID_KEY',
      `the signer of ${signer.did} gave ${found}, expected the ${SIGNATURE_BYTES} bytes of an Ed25519 signature`,
      'return the raw signature as a Uint8Array',
    );
  }
  const check = { jwt: text, signingInputLength: text.length, signature, publicKey };
  const [isItsOwn] = await verifyEventually([check]);
  if (isItsOwn === true) return signature;
  throw new IssueError(
    'INVALID_KEY',
    `the signer's signature does not verify under its did ${signer.did}`,
    'give it the did of its own key, and sign the bytes as given',
  );
}
