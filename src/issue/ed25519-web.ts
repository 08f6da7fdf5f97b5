import { encodeUtf8 } from '#platform';
import type { SignatureCheck } from '../protocol/jwt.js';
import type { Sodium } from './ed25519-node.js';
import { invalidKey } from './issue-error.js';

// `#ed25519` in package.json where there is no Node: same functions as ed25519-node.ts. Bun and Deno load libsodium with the first
// key in memory: importing this needs no native code and no permission. Pages and workers have no such keys.

/** What Bun and Deno have of Node.js. */
interface NodeLike {
  readonly process?: {
    getBuiltinModule?(name: 'node:module'): { createRequire(from: string): (name: string) => unknown };
  };
}

let loaded: Sodium | undefined;

export function sodium(): Sodium {
  let reason = '';
  try {
    const module = (globalThis as NodeLike).process?.getBuiltinModule?.('node:module');
    loaded ??= module?.createRequire(import.meta.url)('sodium-native') as Sodium | undefined;
  } catch (error) {
    reason = ` (${String(error).slice(0, 200)})`;
  }
  if (loaded !== undefined) return loaded;
  throw invalidKey(
    `a key in memory signs with sodium-native, which this runtime does not load${reason}`,
    'sign with a Signer, such as webCryptoSigner(await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]))',
  );
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
