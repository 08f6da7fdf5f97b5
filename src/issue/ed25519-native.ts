import type { SignatureCheck } from '../protocol/jwt.js';
import type { KeyPair, Sodium as Signing } from './ed25519-node.js';
import { messageOf, withoutSodium } from './ed25519-web.js';

// `#ed25519` in package.json for Bun and Deno: same functions as ed25519-node.ts.

export { randomSeed, verifyEventually } from './ed25519-web.js';
export type { KeyPair } from './ed25519-node.js';

/** The part of libsodium that is used here. */
interface Sodium extends Signing {
  crypto_sign_verify_detached(
    signature: Uint8Array,
    message: Uint8Array,
    publicKey: Uint8Array,
  ): boolean | undefined;
}

/** What Bun and Deno have of Node.js. */
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
 * libsodium, for keys in memory: when the first such key is made, so that importing this module needs no native code and
 * no permission.
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
  throw withoutSodium(cause instanceof Error ? ` (${cause.message.slice(0, 200)})` : '');
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
