import { Buffer } from 'node:buffer';
import { PUBLIC_KEY_BYTES } from '../protocol/did-key.js';
import type { SignatureCheck } from '../protocol/jwt.js';
import type { SignatureStats, SignatureVerifier } from './signature-verifier.js';
import { sodium } from './sodium.js';

// The binding's object has some hundred members and is searched at each use. Its types promise a boolean, but shared
// memory gives undefined on Node 20; and they ask for a Buffer, but any bytes do.
const verifyDetached = sodium.crypto_sign_verify_detached as (
  signature: Uint8Array,
  message: Buffer,
  publicKey: Buffer,
) => boolean | undefined;

export const SIGNATURE_BYTES = 64;

/**
 * Verifies one Ed25519 signature, strictly: S below the group order, no small-order or non-canonical key.
 *
 * None of the buffers may lie in a SharedArrayBuffer: on Node 20, sodium-native then answers `undefined`, which counts as
 * false.
 *
 * @param signature 64 bytes; any other length is false (sodium-native itself accepts appended bytes)
 * @param publicKey 32 bytes; any other length is false
 * @see RFC 8032 §5.1.7, libsodium `crypto_sign_verify_detached`
 */
export function verifyEd25519(signature: Uint8Array, message: Buffer, publicKey: Buffer): boolean {
  if (signature.length !== SIGNATURE_BYTES || publicKey.length !== PUBLIC_KEY_BYTES) return false;
  return verifyDetached(signature, message, publicKey) === true;
}

// One message and its key at a time are copied here; only this thread ever touches them.
let message = Buffer.alloc(16 * 1024);
const key = Buffer.alloc(PUBLIC_KEY_BYTES);

/** Verifies one signature at once, on this thread. */
export function verifyCheck({ jwt, signingInputLength, signature, publicKey }: SignatureCheck): boolean {
  if (publicKey.length !== PUBLIC_KEY_BYTES) return false;
  if (message.length < signingInputLength) message = Buffer.alloc(2 * signingInputLength);
  message.write(jwt, 0, signingInputLength, 'latin1');
  key.set(publicKey);
  return verifyEd25519(signature, message.subarray(0, signingInputLength), key);
}

/** Verifies signatures on the calling thread, at once: for embedding and tests, and `WORKER_THREADS=0`. */
export class InThreadVerifier implements SignatureVerifier {
  readonly waitMs = 0;
  #verified = 0;

  get stats(): SignatureStats {
    return { pending: 0, inThread: this.#verified, pooled: 0, batches: 0, repeated: 0, workers: 0 };
  }

  verify(checks: readonly SignatureCheck[]): boolean[] {
    this.#verified += checks.length;
    return checks.map(verifyCheck);
  }

  readonly close = () => Promise.resolve();
}
