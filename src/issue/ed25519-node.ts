import { Buffer } from 'node:buffer';
import type { SignatureCheck } from '../protocol/jwt.js';
import { verifyCheck } from '../signatures/in-thread.js';
import { sodium as native } from '../signatures/sodium.js';

// `#ed25519` in package.json: what issuing needs of Ed25519, by libsodium. ed25519-web.ts takes its place elsewhere.

/** The part of libsodium that signs. Its types ask for a Buffer, but any bytes do. */
export interface Sodium {
  crypto_sign_seed_keypair(publicKey: Uint8Array, secretKey: Uint8Array, seed: Uint8Array): void;
  crypto_sign_detached(signature: Uint8Array, message: Uint8Array, secretKey: Uint8Array): void;
}

const sodium: Sodium = native;

/** A secret key as libsodium keeps it, with its public key of 32 bytes. */
export interface KeyPair {
  readonly publicKey: Uint8Array;
  readonly secretKey: Uint8Array;
}

/** Makes a seed of 32 bytes from the system's randomness. */
export function randomSeed(): Uint8Array {
  const seed = Buffer.alloc(native.crypto_sign_SEEDBYTES);
  native.randombytes_buf(seed);
  return seed;
}

/** The keys of a seed. RFC 8032 §5.1.5 */
export function keyPairOf(seed: Uint8Array): KeyPair {
  const publicKey = Buffer.alloc(native.crypto_sign_PUBLICKEYBYTES);
  const secretKey = Buffer.alloc(native.crypto_sign_SECRETKEYBYTES);
  sodium.crypto_sign_seed_keypair(publicKey, secretKey, seed);
  return { publicKey, secretKey };
}

/** Signs bytes as they are: 64 bytes. RFC 8032 §5.1.6 */
export function signDetached(message: Uint8Array, { secretKey }: KeyPair): Uint8Array {
  const signature = Buffer.alloc(native.crypto_sign_BYTES);
  sodium.crypto_sign_detached(signature, message, secretKey);
  return signature;
}

/** For each check, whether its signature verifies. */
export function verifyAll(checks: readonly SignatureCheck[]): Promise<boolean[]> {
  return Promise.resolve(checks.map(verifyCheck));
}
