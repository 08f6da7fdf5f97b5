import { ReplayStoreError, type ReplayStore } from './replay-store.js';

interface Entry {
  readonly key: string;
  /** Unix seconds from which it may be forgotten. */
  readonly end: number;
  next: Entry | null;
}

/** More than one for each that comes in, so that what has expired goes sooner than it can gather. */
const EVICTIONS_PER_RECORD = 4;

/** A {@link ReplayStore} that answers at once. */
export interface MemoryReplayStore extends ReplayStore {
  record(key: string, now: number, ttlSecs: number): boolean;
  /** Invocations on record. */
  readonly size: number;
}

/**
 * A replay store in this process, lost with it and not seen by others.
 *
 * @param options.maxEntries the most invocations on record; each takes about 300 bytes. Size it as calls per second
 *   × (window + 60 s). When it is full of live entries, calls are refused rather than others forgotten.
 * @example const replayStore = createMemoryReplayStore({ maxEntries: 100_000 });
 */
export function createMemoryReplayStore({
  maxEntries = 1_000_000,
}: { readonly maxEntries?: number } = {}): MemoryReplayStore {
  if (!Number.isSafeInteger(maxEntries) || maxEntries < 1) {
    throw new RangeError(`maxEntries is ${maxEntries}, expected an integer of at least 1`);
  }
  return new KeyQueue(maxEntries);
}

class KeyQueue implements MemoryReplayStore {
  readonly #maxEntries: number;
  readonly #keys = new Set<string>();
  // In the order in which they expire, since all have the same time to live. A list, because a Set does not give its
  // oldest member in constant time once many before it were deleted.
  #oldest: Entry | null = null;
  #newest: Entry | null = null;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#keys.size;
  }

  record(key: string, now: number, ttlSecs: number): boolean {
    this.#evict(now);
    if (this.#keys.has(key)) return false;
    if (this.#keys.size >= this.#maxEntries) {
      throw new ReplayStoreError(`it is full: ${this.#maxEntries} invocations are on record`);
    }
    const entry: Entry = { key, end: now + ttlSecs, next: null };
    if (this.#newest === null) this.#oldest = entry;
    else this.#newest.next = entry;
    this.#newest = entry;
    this.#keys.add(key);
    return true;
  }

  close(): Promise<void> {
    this.#keys.clear();
    this.#oldest = this.#newest = null;
    return Promise.resolve();
  }

  #evict(now: number): void {
    for (let left = EVICTIONS_PER_RECORD; left > 0; left--) {
      const entry = this.#oldest;
      if (entry === null || entry.end > now) return;
      this.#keys.delete(entry.key);
      this.#oldest = entry.next;
      if (this.#oldest === null) this.#newest = null;
    }
  }
}
