import { Buffer } from 'node:buffer';
import type { SignatureCheck } from '../protocol/jwt.js';
import { PUBLIC_KEY_BYTES } from '../protocol/did-key.js';
import { SIGNATURE_BYTES, verifyEd25519 } from './in-thread.js';

// A slot is memory that the main thread shares with one worker at a time. For each check of a batch it holds the fields
// below. Each kind of field has an area of its own, so that a worker can use the same views for every batch:
//
//   its state (1 byte), see CheckState
//   the length of its message (4 bytes)
//   its signature (64) and public key (32)
//   its message, directly after that of the previous check
//
// The main thread writes a slot and hands its number to a worker. Until the worker has answered, it touches only the
// states. A check is verified by the thread that first changes its state from open.

export const BATCH_CHECKS = 32;

/** Enough for a batch of ordinary checks. A larger check gets memory of its own. */
export const SLOT_BYTES = 64 * 1024;

/** State of one check. Results of checks that the main thread takes back are kept there, not in the slot. */
const CheckState = { open: 0, taken: 1, verified: 2, refused: 3, takenBack: 4 } as const;

const LENGTH_BYTES = 4;
const LENGTHS = BATCH_CHECKS;
const SIGNATURES = LENGTHS + BATCH_CHECKS * LENGTH_BYTES;
const PUBLIC_KEYS = SIGNATURES + BATCH_CHECKS * SIGNATURE_BYTES;
const MESSAGES = PUBLIC_KEYS + BATCH_CHECKS * PUBLIC_KEY_BYTES;

/** The memory that a batch of one check takes, in bytes. */
export function bytesFor({ signingInputLength }: SignatureCheck): number {
  return MESSAGES + signingInputLength;
}

/** Writes a batch into a slot, check by check. */
export class SlotWriter {
  readonly #memory: Buffer;
  // Only this class changes these two.
  /** Checks written so far. */
  checks = 0;
  /** Bytes in use so far. */
  bytes = MESSAGES;
  // All checks before this one are taken.
  #firstOpen = 0;

  constructor(memory: Buffer) {
    this.#memory = memory;
  }

  /** Starts a new batch. */
  clear(): void {
    this.#memory.fill(0, 0, BATCH_CHECKS);
    this.checks = 0;
    this.bytes = MESSAGES;
    this.#firstOpen = 0;
  }

  /** Adds a check to the batch. @returns false if it does not fit */
  write({ jwt, signingInputLength, signature, publicKey }: SignatureCheck): boolean {
    const memory = this.#memory;
    const check = this.checks;
    if (check === BATCH_CHECKS || this.bytes + signingInputLength > memory.length) return false;
    memory.writeUInt32LE(signingInputLength, LENGTHS + check * LENGTH_BYTES);
    const at = SIGNATURES + check * SIGNATURE_BYTES;
    // A signature of another length can never verify. The worker gets zeros instead, which never verify either.
    if (signature.length === SIGNATURE_BYTES) memory.set(signature, at);
    else memory.fill(0, at, at + SIGNATURE_BYTES);
    memory.set(publicKey, PUBLIC_KEYS + check * PUBLIC_KEY_BYTES);
    this.bytes += memory.write(jwt, this.bytes, signingInputLength, 'latin1');
    this.checks++;
    return true;
  }

  /** Takes back the first check that the worker has not begun. Returns its number, or -1 if there is none. */
  takeBack(): number {
    for (; this.#firstOpen < this.checks; this.#firstOpen++) {
      if (take(this.#memory, this.#firstOpen, CheckState.takenBack)) return this.#firstOpen++;
    }
    return -1;
  }

  /** Whether a check verified, once the worker has answered; `null` if it was taken back. */
  resultOf(check: number): boolean | null {
    const state = this.#memory[check];
    return state === CheckState.takenBack ? null : state === CheckState.verified;
  }
}

/** Verifies a batch in a copy of the slot's bytes, in memory that is not shared: libsodium takes no shared memory. */
export class SlotReader {
  readonly #memory: Buffer;
  // Allocated when first needed, then used for every later batch.
  readonly #signatures: Buffer[] = [];
  readonly #publicKeys: Buffer[] = [];

  constructor(bytes: number) {
    this.#memory = Buffer.alloc(bytes);
  }

  /**
   * Verifies the checks of a batch that the main thread has not taken back.
   *
   * @param shared the memory of the slot, in which the results are when this returns
   * @param bytes in use of it
   */
  verify(shared: Uint8Array, bytes: number, checks: number): void {
    const memory = this.#memory;
    memory.set(shared.subarray(0, bytes));
    let at = MESSAGES;
    for (let check = 0; check < checks; check++) {
      const end = at + memory.readUInt32LE(LENGTHS + check * LENGTH_BYTES);
      if (take(shared, check, CheckState.taken)) {
        const signature = (this.#signatures[check] ??= item(memory, SIGNATURES, check, SIGNATURE_BYTES));
        const publicKey = (this.#publicKeys[check] ??= item(memory, PUBLIC_KEYS, check, PUBLIC_KEY_BYTES));
        const isVerified = verifyEd25519(signature, memory.subarray(at, end), publicKey);
        Atomics.store(shared, check, isVerified ? CheckState.verified : CheckState.refused);
      }
      at = end;
    }
  }
}

/** @returns whether the check was open; then no other thread can take it any more */
function take(states: Uint8Array, check: number, state: number): boolean {
  return Atomics.compareExchange(states, check, CheckState.open, state) === CheckState.open;
}

function item(memory: Buffer, area: number, check: number, size: number): Buffer {
  return memory.subarray(area + check * size, area + (check + 1) * size);
}

export interface Batch {
  /** The number of a shared slot, or memory for this batch alone. */
  readonly memory: number | SharedArrayBuffer;
  readonly checks: number;
  /** Bytes in use. */
  readonly bytes: number;
}
