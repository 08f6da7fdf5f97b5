const SLAB_BITS = 16;
const SLAB_LENGTH = 1 << SLAB_BITS;
const NOTHING = new Float64Array(0);
// With 10 million indices a merge takes some 0.1 s. It comes once for each 1/64 that is added, so adding stays cheap,
// and the recent ones, which take several times the memory of a slab each, stay few.
const MIN_RECENT = 1024;
const RECENT_SHARE = 64;

/**
 * A set of indices 0 … 2^53−1 in some 9 bytes each, however they are scattered: one ascending sequence, cut into slabs
 * of one size, and beside it the few that came last. (A JavaScript `Set` takes some 50 bytes each and ends at 16.7
 * million; a paged bitset takes a page for each index where they lie far apart.)
 */
export class IndexSet {
  /** Ascending over all slabs; all but the last are full. */
  #slabs: Float64Array[] = [];
  #sortedLength = 0;
  /** Those that are in no slab yet. */
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
   * Adds many indices to a set that was not added to one by one so far.
   *
   * @param indices in any order, repeated or not; the array is sorted in place
   */
  load(indices: Float64Array): void {
    this.#merge(indices.sort());
  }

  /** All of them, in no order. The set must not be changed meanwhile. */
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
   * Merges ascending indices into the slabs. A slab that has been read is written to again, so that the two sequences
   * are never both in memory, and the allocator sees one size only.
   */
  #merge(indices: Float64Array): void {
    const unread = this.#slabs.reverse();
    let left = this.#sortedLength;
    const spare: Float64Array[] = [];
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
          into = spare.pop() ?? new Float64Array(SLAB_LENGTH);
          written.push(into);
        }
        into[intoAt] = last = value;
        length++;
      }
      if (fromAt === SLAB_LENGTH) {
        spare.push(from);
        from = unread.pop() ?? NOTHING;
        fromAt = 0;
      }
    }
    this.#slabs = written;
    this.#sortedLength = length;
  }
}
