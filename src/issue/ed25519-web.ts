import { encodeUtf8 } from '#platform';
import type { SignatureCheck } from '../protocol/jwt.js';
import type { KeyPair, Sodium as Signing } from './ed25519-node.js';
import { IssueError } from './issue-error.js';

// `#ed25519` in package.json where it is not Node: same functions as ed25519-node.ts.

export type { KeyPair } from './ed25519-node.js';

/** The part of libsodium that is used here. */
interface Sodium extends Signing {
  crypto_sign_verify_detached(
    signature: Uint8Array,
    message: Uint8Array,
    publicKey: Uint8Array,
  ): boolean | undefined;
}

/** What Bun, Deno and Node.js have in common here. */
interface NodeLike {
  readonly process?: {
    getBuiltinModule?(name: 'node:module'):
      | {
          createRequire(from: string): (name: string) => unknown;
        }
      | undefined;
  };
}

let loaded: Sodium | undefined;

/**
 * libsodium, for keys in memory: in Bun and Deno, when the first such key is made, so that importing this module needs
 * no native code and no permission.
 */
function sodium(): Sodium {
  let cause: unknown;
  try {
    const module = (globalThis as NodeLike).process?.getBuiltinModule?.('node:module');
    loaded ??= module?.createRequire(import.meta.url)('sodium-native') as Sodium | undefined;
  } catch (error) {
    cause = error;
  }
  if (loaded !== undefined) return loaded;
  const reason = cause instanceof Error ? ` (${cause.message.slice(0, 200)})` : '';
  throw new IssueError(
    'INVALID_KEY',
    `a key in memory signs with sodium-native, which this runtime does not load${reason}`,
    'sign with a Signer, such as webCryptoSigner(await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]))',
  );
}

export function randomSeed(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(32));
}

export function keyPairOf(seed: Uint8Array): KeyPair {
  const [publicKey, secretKey] = [new Uint8Array(32), new Uint8Array(64)];
  sodium().crypto_sign_seed_keypair(publicKey, secretKey, seed);
  return { publicKey, secretKey };
}

export function signDetached(message: Uint8Array, { secretKey }: KeyPair): Uint8Array {
  const signature = new Uint8Array(64);
  sodium().crypto_sign_detached(signature, message, secretKey);
  return signature;
}

export function verifyAtOnce(checks: readonly SignatureCheck[]): boolean[] {
  return checks.map(
    (check) =>
      check.signature.length === 64 &&
      sodium().crypto_sign_verify_detached(check.signature, messageOf(check), check.publicKey) === true,
  );
}

/**
 * By WebCrypto, which may accept a signature that libsodium refuses (under a key of small order). Here that only means
 * that a mistake is found later, by the verifier: nothing is admitted on the strength of this answer.
 */
export function verifyEventually(checks: readonly SignatureCheck[]): Promise<boolean[]> {
  return Promise.all(
    checks.map(async (check) => {
      const key = await crypto.subtle.importKey('raw', Uint8Array.from(check.publicKey), 'Ed25519', false, [
        'verify',
      ]);
      return crypto.subtle.verify('Ed25519', key, Uint8Array.from(check.signature), messageOf(check));
    }),
  );
}

function messageOf({ jwt, signingInputLength }: SignatureCheck): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(encodeUtf8(jwt.slice(0, signingInputLength)));
}
