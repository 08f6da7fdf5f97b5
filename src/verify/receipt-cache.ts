import type { Chain, Receipt } from './receipt.js';

/** Figures of a {@link ReceiptCache}; the first three only grow. */
export interface ReceiptCacheFigures {
  readonly hits: number;
  readonly misses: number;
  readonly evictions: number;
  readonly receipts: number;
  readonly bytes: number;
}

// Above what was measured of a cached receipt of n characters: 2.8 kB (n = 862, depth 4) to 4.9 kB (n = 1007, depth 1).
const OVERHEAD_BYTES = 2_000;
const BYTES_PER_CHARACTER = 3;
const MOST_USES = 3;
// Of a signature's 86 characters; enough that different receipts practically never share it.
const TAIL = 48;
// Receipts of which it is remembered that they were seen once: 4 bytes each, and collisions only cost another look.
const SEEN = 1 << 16;

/**
 * Receipts whose signature has verified, by their exact JWT. That a signature verifies is a pure function of the
 * bytes, so an entry never goes stale; nothing that depends on time, revocation or a call is in here.
 *
 * Bounded in bytes and scan-resistant: a receipt enters when it is seen for the second time, so that one-off chains take
 * no space. Then, after S3-FIFO, it stays on probation in a tenth of the space, and only what is asked for again there
 * moves to the main queue. A parent stays as long as a cached child points to it, so that everything reachable from
 * the cache is counted.
 */
export class ReceiptCache {
  readonly #maxBytes: number;
  // Maps keep their order of insertion, which makes each of them a queue and an index at once.
  readonly #probation = new Map<string, Receipt>();
  readonly #main = new Map<string, Receipt>();
  // By the end of the text, which proposes a receipt and proves nothing.
  readonly #byTail = new Map<string, Receipt>();
  readonly #seen = new Uint32Array(SEEN);
  #bytes = 0;
  #probationBytes = 0;
  #hits = 0;
  #misses = 0;
  #evictions = 0;

  /** @param maxBytes 0 turns the cache off */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get figures(): ReceiptCacheFigures {
    return {
      hits: this.#hits,
      misses: this.#misses,
      evictions: this.#evictions,
      receipts: this.#probation.size + this.#main.size,
      bytes: this.#bytes,
    };
  }

  /** The receipt with exactly this JWT, if its signature is known to verify. */
  get(jwt: string): Receipt | undefined {
    const receipt = this.#main.get(jwt) ?? this.#probation.get(jwt);
    if (receipt === undefined) {
      this.#misses++;
      return undefined;
    }
    this.#hits++;
    if (receipt.uses < MOST_USES) receipt.uses++;
    return receipt;
  }

  /**
   * The chain whose leaf may be the one that ends at a position of a text. A guess by the leaf's last characters: the
   * caller compares the whole.
   */
  guessChain(text: string, end: number): Chain | null {
    if (end < TAIL) return null;
    return this.#byTail.get(text.slice(end - TAIL, end))?.chain ?? null;
  }

  /** Takes in a receipt whose signature has just verified, if it was offered before. */
  offer(receipt: Receipt): void {
    const { signature } = receipt;
    if (signature === null || this.#maxBytes === 0) return;
    // A signature's first half is as good as random, and cannot be chosen without the issuer's key.
    const slot = signature.readUInt32LE(0) % SEEN;
    const mark = signature.readUInt32LE(4);
    if (this.#seen[slot] === mark) this.add(receipt);
    else this.#seen[slot] = mark;
  }

  /** Takes in a receipt whose signature has verified. */
  add(receipt: Receipt): void {
    const size = sizeOf(receipt);
    if (size > this.#maxBytes || receipt.generation !== 'none') return;
    if (this.#main.has(receipt.jwt) || this.#probation.has(receipt.jwt)) return;
    receipt.generation = 'probation';
    this.#probation.set(receipt.jwt, receipt);
    this.#byTail.set(tailOf(receipt), receipt);
    this.#bytes += size;
    this.#probationBytes += size;
    if (receipt.parent !== null) receipt.parent.dependants++;
    while (this.#bytes > this.#maxBytes) this.#evictOne();
  }

  /** Remembers on the child, if both are cached, that all that concerns this pair is proved. */
  link(parent: Receipt, child: Receipt): void {
    if (child.parent !== null) return;
    if (parent.generation === 'none' || child.generation === 'none') return;
    child.parent = parent;
    parent.dependants++;
  }

  #evictOne(): void {
    const fromProbation = this.#probationBytes > this.#maxBytes / 10 || this.#main.size === 0;
    const queue = fromProbation ? this.#probation : this.#main;
    for (const receipt of queue.values()) {
      queue.delete(receipt.jwt);
      if (fromProbation) this.#probationBytes -= sizeOf(receipt);
      if (receipt.uses === 0 && receipt.dependants === 0) {
        this.#drop(receipt);
      } else {
        // On probation one use is enough to stay; in the main queue each round costs one.
        if (!fromProbation && receipt.uses > 0) receipt.uses--;
        receipt.generation = 'main';
        this.#main.set(receipt.jwt, receipt);
      }
      return;
    }
  }

  #drop(receipt: Receipt): void {
    receipt.generation = 'none';
    receipt.chain = null;
    if (this.#byTail.get(tailOf(receipt)) === receipt) this.#byTail.delete(tailOf(receipt));
    if (receipt.parent !== null) receipt.parent.dependants--;
    receipt.parent = null;
    this.#bytes -= sizeOf(receipt);
    this.#evictions++;
  }
}

function tailOf({ jwt }: Receipt): string {
  return jwt.slice(-TAIL);
}

function sizeOf(receipt: Receipt): number {
  return OVERHEAD_BYTES + BYTES_PER_CHARACTER * receipt.jwt.length;
}
