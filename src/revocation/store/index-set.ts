const SLAB_BITS = 16;
const SLAB_LENGTH = 1 << SLAB_BITS;
const NOTHING = new Float64Array(0);
// With 10 million indices, a merge takes about 0.1 s. It happens each time the set has grown by 1/64: adding stays
// cheap, and there are few recent indices, which need several times the memory of those in slabs.
const MIN_RECENT = 1024;
const RECENT_SHARE = 64;

/**
 * A set of indices 0 … 2^53−1 that needs about 9 bytes for each, however far apart they are. It is one ascending
 * sequence, divided into slabs (arrays) of equal size, plus a small `Set` of recent indices. A JavaScript `Set` alone
 * needs about 50 bytes each and is limited to 16.7 million. A paged bitset needs a page for each index if they are
 * far apart.
 */
export class IndexSet {
  /** Ascending over all slabs; all but the last are full. */
  #slabs: Float64Array[] = [];
  #sortedLength = 0;
  /** Indices that are not in a slab yet. */
  readonly #recent = new Set<number>();

  get size(): number {
    return this.#sortedLength + this.#recent.size;
  }

  has(index: number): boolean {
    return this.#recent.has(index) || this.#isSorted(index);
  }

  add(index: number): void {
    if (this.has(index)) return;
    this.#recent.add(index);
    if (this.#recent.size < MIN_RECENT + this.#sortedLength / RECENT_SHARE) return;
    const recent = Float64Array.from(this.#recent);
    this.#recent.clear();
    this.#merge(recent.sort());
  }

  /**
   * Adds many indices at once. Only for a set to which no single index was added before.
   *
   * @param indices in any order, repeated or not; the array is sorted in place
   */
  load(indices: Float64Array): void {
    this.#merge(indices.sort());
  }

  /** All indices, in no particular order. Do not change the set meanwhile. */
  *values(): Generator<number> {
    for (let at = 0; at < this.#sortedLength; at++) {
      yield (this.#slabs[at >>> SLAB_BITS] as Float64Array)[at % SLAB_LENGTH] as number;
    }
    yield* this.#recent;
  }

  #isSorted(index: number): boolean {
    let low = 0;
    let high = this.#sortedLength;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const slab = this.#slabs[middle >>> SLAB_BITS] as Float64Array;
      const value = slab[middle % SLAB_LENGTH] as number;
      if (value === index) return true;
      if (value < index) low = middle + 1;
      else high = middle;
    }
    return false;
  }

  /**
   * Merges ascending indices into the slabs. Slabs that have been read are reused for the result. So the old and the
   * new sequence are never both in memory, and all allocations have the same size.
   */
  #merge(indices: Float64Array): void {
    const unread = this.#slabs.reverse();
    let left = this.#sortedLength;
    const free: Float64Array[] = [];
    const written: Float64Array[] = [];
    let length = 0;
    let from: Float64Array = unread.pop() ?? NOTHING;
    let into: Float64Array = NOTHING;
    let fromAt = 0;
    let at = 0;
    let last = -1;
    while (left > 0 || at < indices.length) {
      const loaded = at < indices.length ? (indices[at] as number) : Infinity;
      let value = left > 0 ? (from[fromAt] as number) : Infinity;
      if (value <= loaded) {
        left--;
        fromAt++;
      } else {
        value = loaded;
        at++;
      }
      if (value !== last) {
        const intoAt = length % SLAB_LENGTH;
        if (intoAt === 0) {
          into = free.pop() ?? new Float64Array(SLAB_LENGTH);
          written.push(into);
        }
        into[intoAt] = last = value;
        length++;
      }
      if (fromAt === SLAB_LENGTH) {
        free.push(from);
        from = unread.pop() ?? NOTHING;
        fromAt = 0;
      }
    }
    this.#slabs = written;
    this.#sortedLength = length;
  }
}
