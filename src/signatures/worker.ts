import { Piscina } from 'piscina';
import { SLOT_BYTES, SlotReader, type Batch } from './slot.js';

// Set by the pool, which starts this module with its slots.
const slots = (Piscina.workerData as SharedArrayBuffer[]).map((memory) => new Uint8Array(memory));
const ordinary = new SlotReader(SLOT_BYTES);

export default function verifyBatch({ memory, checks, bytes }: Batch): void {
  const shared = typeof memory === 'number' ? slots[memory] : new Uint8Array(memory);
  if (shared === undefined) throw new RangeError('the pool named a slot that it did not share');
  const reader = bytes <= SLOT_BYTES ? ordinary : new SlotReader(bytes);
  reader.verify(shared, bytes, checks);
}
