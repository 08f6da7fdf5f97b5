import type { SignatureCheck } from '../protocol/jwt.js';
import { verifyCheck } from '../signatures/in-thread.js';
import { sodium as native } from '../signatures/sodium.js';

// `#ed25519` in package.json: what issuing needs of Ed25519, by libsodium. ed25519-web.ts takes its place elsewhere.

/** The part of libsodium that signs. Its types ask for a Buffer, but any bytes do. */
export interface Sodium {
  randombytes_buf(bytes: Uint8Array): void;
  crypto_sign_seed_keypair(publicKey: Uint8Array, secretKey: Uint8Array, seed: Uint8Array): void;
  crypto_sign_detached(signature: Uint8Array, message: Uint8Array, secretKey: Uint8Array): void;
}

export function sodium(): Sodium {
  return native;
}

export function verifyAll(checks: readonly SignatureCheck[]): Promise<boolean[]> {
  return Promise.resolve(checks.map(verifyCheck));
}
