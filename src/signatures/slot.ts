import { Buffer } from 'node:buffer';
import type { SignatureCheck } from '../verify/blocks/c-signatures.js';
import { PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from './verify-ed25519.js';

// A slot is memory shared by the main thread and one worker at a time:
//
//   one byte for each check: its result, 1 where the signature verified
//   for each check, one after the other: message length (4 bytes), signature (64), public key (32), message
//
// The main thread writes a slot, hands its number to a worker, and does not touch it until the worker has answered.

const LENGTH_BYTES = 4;
const FIXED_BYTES = LENGTH_BYTES + SIGNATURE_BYTES + PUBLIC_KEY_BYTES;

/** Room for a batch of ordinary checks; whatever is larger gets memory of its own. */
export const SLOT_BYTES = 64 * 1024;

/** The most checks in one batch. */
export const BATCH_CHECKS = 32;

/** One batch of checks as a worker is told of it. */
export interface Batch {
  /** The number of a shared slot, or memory for this batch alone. */
  readonly memory: number | SharedArrayBuffer;
  readonly checks: number;
  /** Bytes in use, results included. */
  readonly bytes: number;
}

/** The bytes that a check takes in a slot, its result included. */
export function sizeOfCheck(check: SignatureCheck): number {
  return 1 + FIXED_BYTES + check.signingInputLength;
}

/**
 * Writes checks into a slot.
 *
 * @returns the bytes in use
 */
export function writeChecks(slot: Buffer, checks: readonly SignatureCheck[]): number {
  let at = checks.length;
  slot.fill(0, 0, at);
  for (const { jwt, signingInputLength, signature, publicKey } of checks) {
    at = slot.writeUInt32LE(signingInputLength, at);
    // A signature of another length can never verify; the worker is given one of zeros, which does not either.
    if (signature.length === SIGNATURE_BYTES) slot.set(signature, at);
    else slot.fill(0, at, at + SIGNATURE_BYTES);
    slot.set(publicKey, at + SIGNATURE_BYTES);
    at += SIGNATURE_BYTES + PUBLIC_KEY_BYTES;
    at += slot.write(jwt, at, signingInputLength, 'latin1');
  }
  return at;
}

/**
 * Verifies the checks of a slot.
 *
 * @param copy the slot's bytes, copied into memory of this thread's own: libsodium takes no shared memory
 * @param results the first byte for each check, 1 where the signature verified; may be shared
 */
export function verifyChecks(
  copy: Buffer,
  checks: number,
  results: Uint8Array,
  verify: (signature: Buffer, message: Buffer, publicKey: Buffer) => boolean,
): void {
  let at = checks;
  for (let check = 0; check < checks; check++) {
    const length = copy.readUInt32LE(at);
    const signature = at + LENGTH_BYTES;
    const publicKey = signature + SIGNATURE_BYTES;
    const message = publicKey + PUBLIC_KEY_BYTES;
    at = message + length;
    const isVerified = verify(
      copy.subarray(signature, publicKey),
      copy.subarray(message, at),
      copy.subarray(publicKey, message),
    );
    results[check] = isVerified ? 1 : 0;
  }
}
