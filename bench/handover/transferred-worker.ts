import { move } from 'piscina';
import { SlotReader } from '../../src/signatures/slot.js';
import { verifyEd25519 } from '../../src/signatures/in-thread.js';
import type { TransferredBatch } from './transferred.js';

/** Verifies a batch. Its memory now belongs to this thread, so nothing needs to be copied. */
export default function verifyBatch({ memory, checks }: TransferredBatch): unknown {
  const states = new Uint8Array(checks);
  new SlotReader(Buffer.from(memory)).verify(checks, states, verifyEd25519);
  return move(states);
}
