import { Buffer } from 'node:buffer';
import type { SignatureCheck } from '../protocol/jwt.js';
import type { SignatureStats, SignatureVerifier } from './signature-verifier.js';
import { PUBLIC_KEY_BYTES, verifyEd25519 } from './verify-ed25519.js';

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

  close(): Promise<void> {
    return Promise.resolve();
  }
}
