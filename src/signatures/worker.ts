import { Piscina } from 'piscina';
import { SLOT_BYTES, SlotReader, type Batch } from './slot.js';
import { verifyEd25519 } from './in-thread.js';

// Set by the pool, which starts this module with its slots.
const slots = (Piscina.workerData as SharedArrayBuffer[]).map((memory) => new Uint8Array(memory));
const copy = new SlotReader(Buffer.alloc(SLOT_BYTES));

/** Verifies a batch in its slot; the results are in the slot when this returns. */
export default function verifyBatch({ memory, checks, bytes }: Batch): void {
  const shared = typeof memory === 'number' ? slots[memory] : new Uint8Array(memory);
  if (shared === undefined) throw new RangeError('the pool named a slot that it did not share');
  const own = bytes <= SLOT_BYTES ? copy : new SlotReader(Buffer.alloc(bytes));
  own.fill(shared.subarray(0, bytes));
  own.verify(checks, shared, verifyEd25519);
}
