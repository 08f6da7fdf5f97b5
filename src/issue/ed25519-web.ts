import { encodeUtf8 } from '#platform';
import type { SignatureCheck } from '../protocol/jwt.js';
import type { KeyPair } from './ed25519-node.js';
import { IssueError } from './issue-error.js';

// `#ed25519` in package.json for pages and workers, where there are no keys in memory: same functions as ed25519-node.ts.

export type { KeyPair } from './ed25519-node.js';

/** What all say that need libsodium. */
export function withoutSodium(reason = ''): IssueError {
  return new IssueError(
    'INVALID_KEY',
    `a key in memory signs with sodium-native, which this runtime does not load${reason}`,
    'sign with a Signer, such as webCryptoSigner(await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]))',
  );
}

export function randomSeed(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(32));
}

export function keyPairOf(_seed: Uint8Array): KeyPair {
  throw withoutSodium();
}

export function signDetached(_message: Uint8Array, _pair: KeyPair): Uint8Array {
  throw withoutSodium();
}

/**
 * By WebCrypto, which may accept a signature that libsodium refuses (under a key of small order). Here that only means
 * that a mistake is found later, by the verifier: nothing is admitted on the strength of this answer.
 */
export function verifyAll(checks: readonly SignatureCheck[]): Promise<boolean[]> {
  return Promise.all(
    checks.map(async ({ jwt, signingInputLength, signature, publicKey }) => {
      const message = Uint8Array.from(encodeUtf8(jwt.slice(0, signingInputLength)));
      const bytes = Uint8Array.from(publicKey);
      const key = await crypto.subtle.importKey('raw', bytes, 'Ed25519', false, ['verify']);
      return crypto.subtle.verify('Ed25519', key, Uint8Array.from(signature), message);
    }),
  );
}
