import type { KeyPair, Sodium } from './ed25519-node.js';
import { withoutSodium } from './ed25519-web.js';

// `#ed25519` in package.json for Bun and Deno: same functions as ed25519-node.ts.

export { randomSeed, verifyAll } from './ed25519-web.js';
export type { KeyPair } from './ed25519-node.js';

/** What Bun and Deno have of Node.js. */
interface NodeLike {
  readonly process?: {
    getBuiltinModule?(name: 'node:module'): { createRequire(from: string): (name: string) => unknown };
  };
}

let loaded: Sodium | undefined;

/**
 * libsodium, for keys in memory. It is loaded when the first such key is made, so that importing this module needs no
 * native code and no permission.
 */
function sodium(): Sodium {
  let reason = '';
  try {
    const module = (globalThis as NodeLike).process?.getBuiltinModule?.('node:module');
    loaded ??= module?.createRequire(import.meta.url)('sodium-native') as Sodium | undefined;
  } catch (error) {
    reason = ` (${String(error).slice(0, 200)})`;
  }
  if (loaded !== undefined) return loaded;
  throw withoutSodium(reason);
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
