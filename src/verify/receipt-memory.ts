import type { Chain, Receipt } from './receipt.js';

/** What a judge remembers of receipts and chains that verified. `ReceiptCache` has what each of them promises. */
export interface ReceiptMemory {
  keepFor(keysVersion: number): void;
  getReceipt(jwt: string): Receipt | null;
  getChain(jwts: readonly string[]): Chain | null;
  addReceipt(receipt: Receipt): void;
  addChain(chain: Chain): void;
}

/** Remembers nothing: for receipts that are read once, and for pages that a cache would make larger. */
export const NO_MEMORY: ReceiptMemory = {
  keepFor: () => undefined,
  getReceipt: () => null,
  getChain: () => null,
  addReceipt: () => undefined,
  addChain: () => undefined,
};
