import { checkedOptions, count, having, type GivenOptions, type Table } from '../protocol/options.js';
import { Counters } from './counters.js';
import { NEW, REPLAYED, ReplayStoreError } from './usage-store.js';
import type { Charge, Refund, Usage, Use } from './usage-store.js';
import type { ReplayLog, ReplayStore, ReplayUnreadyReason } from './usage-store.js';

interface Holder {
  /** Its DID; empty for those of which it is not known. */
  readonly root: string;
  held: number;
}

export interface UsedCall {
  readonly key: string;
  readonly holder: Holder;
  /** When it was used, in Unix seconds. */
  readonly at: number;
  /** Unix seconds. From then on the entry may be forgotten. */
  readonly end: number;
  /** `refunded`: its charge was given back. `undone`: it was not used after all, and can be. */
  state: 'used' | 'refunded' | 'undone';
  next: UsedCall | null;
}

/** Several expired entries are dropped per insert, so that expired entries cannot accumulate. */
const EVICTIONS_PER_USE = 4;

/** How many invocations there is room for, for each counter. */
const INVOCATIONS_PER_COUNTER = 4;

const OPTIONS = {
  /**
   * Maximum number of invocations on record, about 300 bytes each. You need twice calls per second × (window + 60 s), since calls of one
   * root principal may hold as many as are free: at most half. What is more is refused; no live entry is forgotten. Default 1,000,000.
   *
   * For each four of them one receipt with `max_calls` or `max_total_cost_usd` can be counted, which takes about 350 bytes.
   * When there is no place for another, calls under receipts that are not counted yet are refused.
   */
  maxEntries: { kind: count(1), default: 1_000_000 },
  /** Gets a warning when the store is nearly full. Default: no log. */
  log: { kind: having<ReplayLog>('warn', 'a log, such as of pino') },
} satisfies Table;

/** Options of {@link createMemoryReplayStore}. */
export interface MemoryReplayStoreOptions extends GivenOptions<typeof OPTIONS> {}

/** The store warns above the first share of its capacity. It warns again only after it was below the second share. */
const NEARLY_FULL = 0.8;
const NO_LONGER_NEARLY_FULL = 0.6;

/**
 * A replay store in the memory of this process. It is lost with the process, and other processes do not see it.
 *
 * @throws TypeError if an option is unknown or not of its kind
 * @example const replayStore = createMemoryReplayStore({ maxEntries: 100_000 });
 */
export function createMemoryReplayStore(options: MemoryReplayStoreOptions = {}): ReplayStore {
  const { maxEntries, log } = checkedOptions(options, OPTIONS);
  return new MemoryStore(maxEntries, log);
}

/** The store, and what is needed to keep a copy of it elsewhere: see file-store.ts. */
export class MemoryStore implements ReplayStore {
  readonly capacity: number;
  protected readonly usages: Counters;
  readonly #log: ReplayLog | undefined;
  protected readonly entries = new Map<string, UsedCall>();
  readonly #holders = new Map<string, Holder>();
  /** When the newest of the entries that were dropped was used: where the clock goes back, they may be fresh again. */
  lostAt = 0;
  // In the order of expiry, since all live equally long. A list: finding the oldest member of a Map takes longer the more were deleted.
  #oldest: UsedCall | null = null;
  #newest: UsedCall | null = null;
  #hasWarned = false;

  constructor(capacity: number, log: ReplayLog | undefined) {
    this.capacity = capacity;
    this.usages = new Counters(Math.ceil(capacity / INVOCATIONS_PER_COUNTER));
    this.#log = log;
  }

  get size(): number {
    return this.entries.size;
  }

  get counters(): number {
    return this.usages.byReceipt.size;
  }

  /** Entries are dropped only by `use`, so an expired one counts as room. */
  get unreadyReason(): ReplayUnreadyReason | null {
    if (this.entries.size < this.capacity) return null;
    return (this.#oldest as UsedCall).end > Date.now() / 1000 ? 'replay_store_full' : null;
  }

  // Nothing in it waits: no call comes between the checks and the record.
  // eslint-disable-next-line typescript/require-await -- an error must become a rejection
  async use(key: string, now: number, ttlSecs: number, charge: Charge | null, root = ''): Promise<Use> {
    this.#evict(now);
    const known = this.entries.get(key);
    if (known !== undefined && known.state !== 'undone') return REPLAYED;
    const free = this.capacity - this.entries.size;
    const { held } = this.#holders.get(root) ?? { held: 0 };
    if (known === undefined && free <= 0)
      throw new ReplayStoreError(`it is full: ${this.entries.size} invocations are on record`);
    // Nobody may hold more than is free, so that others find a place.
    if (known === undefined && root !== '' && held >= free)
      throw new ReplayStoreError(
        `calls of this principal hold ${held} of ${this.capacity} records, and ${free} are left for others`,
      );
    const use = charge === null ? NEW : this.usages.charge(charge, now);
    if (use.kind !== 'new') return use;
    if (known === undefined) this.record(key, root, { at: now, end: now + ttlSecs, state: 'used' });
    // It lives long enough: an invocation stays fresh no longer than after its first use.
    else known.state = 'used';
    return use;
  }

  usageOf(receipt: string): Promise<Usage | null> {
    const counter = this.usages.byReceipt.get(receipt);
    return Promise.resolve(counter ? { calls: counter.calls, microUsd: counter.microUsd } : null);
  }

  refund(key: string, refund: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    const entry = this.entries.get(key);
    if (entry?.state === 'refunded') return Promise.resolve('repeated');
    if (entry?.state !== 'used' || !this.usages.refund(refund)) return Promise.resolve('unknown');
    entry.state = 'refunded';
    return Promise.resolve('refunded');
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  protected record(key: string, root: string, rest: Pick<UsedCall, 'at' | 'end' | 'state'>): void {
    let holder = this.#holders.get(root);
    if (holder === undefined) this.#holders.set(root, (holder = { root, held: 0 }));
    holder.held++;
    const entry: UsedCall = { key, holder, ...rest, next: null };
    if (this.#newest === null) this.#oldest = entry;
    else this.#newest.next = entry;
    this.#newest = entry;
    this.entries.set(key, entry);
    const share = this.entries.size / this.capacity;
    if (share < NO_LONGER_NEARLY_FULL) this.#hasWarned = false;
    if (share < NEARLY_FULL || this.#hasWarned) return;
    this.#hasWarned = true;
    this.#log?.warn(
      { entries: this.entries.size, capacity: this.capacity },
      'the replay store is nearly full: once it is, calls are refused; give it more entries or a shorter window',
    );
  }

  #evict(now: number): void {
    for (let left = EVICTIONS_PER_USE; left > 0; left--) {
      const entry = this.#oldest;
      if (entry === null || entry.end > now) return;
      this.lostAt = Math.max(this.lostAt, entry.at);
      this.entries.delete(entry.key);
      if (--entry.holder.held === 0) this.#holders.delete(entry.holder.root);
      this.#oldest = entry.next;
      if (this.#oldest === null) this.#newest = null;
    }
  }
}
