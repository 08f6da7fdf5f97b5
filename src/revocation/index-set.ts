// Large enough that what an array costs besides its numbers is little, small enough that adding to one is cheap.
const MAX_RUN_LENGTH = 2048;

/**
 * A set of indices 0 … 2^53−1 in about 8.3 bytes each, however they are scattered: sorted runs, each an array of
 * exactly its size, under a sorted list of their first elements. (A JavaScript `Set` takes some 50 bytes each and ends
 * at 16.7 million; a paged bitset takes a page for each index where they are far apart.)
 */
export class IndexSet {
  readonly #runs: Float64Array[] = [];
  /** The first element of each run. */
  readonly #firsts: number[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(index: number): boolean {
    const run = this.#runs[lastAtMost(this.#firsts, index)];
    return run !== undefined && run[lastAtMost(run, index)] === index;
  }

  /**
   * Adds indices. Many at once cost much less than one after the other.
   *
   * @param indices ascending; what is in the set already, or occurs twice, is passed over
   */
  addSorted(indices: Float64Array): void {
    let from = 0;
    while (from < indices.length) {
      const at = Math.max(0, lastAtMost(this.#firsts, indices[from] as number));
      const end = this.#firsts[at + 1] ?? Infinity;
      let to = from + 1;
      while (to < indices.length && (indices[to] as number) < end) to++;
      this.#addToRun(at, indices.subarray(from, to));
      from = to;
    }
  }

  #addToRun(at: number, indices: Float64Array): void {
    const run = this.#runs[at] ?? new Float64Array(0);
    const merged = merge(run, indices);
    this.#size += merged.length - run.length;
    const pieces = split(merged);
    this.#runs.splice(at, 1, ...pieces);
    this.#firsts.splice(at, 1, ...pieces.map((piece) => piece[0] as number));
  }
}

/** The position of the last element that is at most `value`, in ascending numbers; −1 where there is none. */
function lastAtMost(ascending: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The union of two ascending arrays, without repetition. */
function merge(left: Float64Array, right: Float64Array): Float64Array {
  const union = new Float64Array(left.length + right.length);
  let length = 0;
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    const a = i < left.length ? (left[i] as number) : Infinity;
    const b = j < right.length ? (right[j] as number) : Infinity;
    const next = a <= b ? a : b;
    if (a <= b) i++;
    else j++;
    if (length === 0 || union[length - 1] !== next) union[length++] = next;
  }
  return union.subarray(0, length);
}

/** Copies of exactly their size, all about equally long. */
function split(numbers: Float64Array): Float64Array[] {
  const count = Math.ceil(numbers.length / MAX_RUN_LENGTH);
  return Array.from({ length: count }, (_, piece) =>
    numbers.slice(
      Math.floor((piece * numbers.length) / count),
      Math.floor(((piece + 1) * numbers.length) / count),
    ),
  );
}
