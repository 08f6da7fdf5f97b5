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
// Of an ordinary receipt, about: a cache of n bytes holds n / 4096 of them.
const ORDINARY_BYTES = 4096;

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
  // By the end of the text, which proposes a receipt and proves nothing: hashing the whole would cost a microsecond.
  readonly #byTail = new Map<string, Receipt>();
  // Sets keep their order of insertion, which makes them queues.
  readonly #probation = new Set<Receipt>();
  readonly #main = new Set<Receipt>();
  // Marks of receipts that were seen once, as many as receipts fit in: what takes longer than that to come back would
  // have been evicted meanwhile. Collisions only cost another look.
  readonly #seen: Uint32Array;
  #bytes = 0;
  #probationBytes = 0;
  #hits = 0;
  #misses = 0;
  #evictions = 0;

  /** @param maxBytes 0 turns the cache off */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#seen = new Uint32Array(Math.ceil(maxBytes / ORDINARY_BYTES));
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
    const receipt = this.#find(jwt);
    if (receipt === undefined) {
      this.#misses++;
      return undefined;
    }
    this.#hits++;
    use(receipt);
    return receipt;
  }

  /** The chain of exactly these receipts, if all that concerns them alone is proved. */
  getChain(jwts: readonly string[]): Chain | null {
    const leaf = this.#find(jwts.at(-1) ?? '');
    if (leaf === undefined || leaf.chain?.consistsOf(jwts) !== true) return null;
    this.#hits += jwts.length;
    // A parent stays as long as its child does.
    use(leaf);
    return leaf.chain;
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
    const slot = signature.readUInt32LE(0) % this.#seen.length;
    const mark = signature.readUInt32LE(4);
    if (this.#seen[slot] === mark) this.add(receipt);
    else this.#seen[slot] = mark;
  }

  /** Takes in a receipt whose signature has verified. */
  add(receipt: Receipt): void {
    const size = sizeOf(receipt);
    if (size > this.#maxBytes || receipt.generation !== 'none') return;
    const tail = tailOf(receipt.jwt);
    // Whoever makes a receipt end like another, which takes a key of one's own, does not get the other out.
    if (this.#byTail.has(tail)) return;
    this.#byTail.set(tail, receipt);
    receipt.generation = 'probation';
    this.#probation.add(receipt);
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

  #find(jwt: string): Receipt | undefined {
    const receipt = this.#byTail.get(tailOf(jwt));
    return receipt?.jwt === jwt ? receipt : undefined;
  }

  #evictOne(): void {
    const fromProbation = this.#probationBytes > this.#maxBytes / 10 || this.#main.size === 0;
    const queue = fromProbation ? this.#probation : this.#main;
    for (const receipt of queue) {
      queue.delete(receipt);
      if (fromProbation) this.#probationBytes -= sizeOf(receipt);
      if (receipt.uses === 0 && receipt.dependants === 0) {
        this.#drop(receipt);
      } else {
        // On probation one use is enough to stay; in the main queue each round costs one.
        if (!fromProbation && receipt.uses > 0) receipt.uses--;
        receipt.generation = 'main';
        this.#main.add(receipt);
      }
      return;
    }
  }

  #drop(receipt: Receipt): void {
    receipt.generation = 'none';
    receipt.chain = null;
    this.#byTail.delete(tailOf(receipt.jwt));
    if (receipt.parent !== null) receipt.parent.dependants--;
    receipt.parent = null;
    this.#bytes -= sizeOf(receipt);
    this.#evictions++;
  }
}

function use(receipt: Receipt): void {
  if (receipt.uses < MOST_USES) receipt.uses++;
}

function tailOf(jwt: string): string {
  return jwt.slice(-TAIL);
}

function sizeOf(receipt: Receipt): number {
  return OVERHEAD_BYTES + BYTES_PER_CHARACTER * receipt.jwt.length;
}
