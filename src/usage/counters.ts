import type { CountedLimits, ReachedLimit } from '../verify/limits.js';
import { ReplayStoreError, type Charge, type Refund, type Usage, type Use } from './usage-store.js';

/**
 * Seconds for which a counter outlives its receipt: the hour in which it may still be used (`EXPIRY_GRACE_SECS`), and one more, so
 * that no clock that is wrong by less lets it be used again with a counter that begins at 0.
 */
export const SPARE_SECS = 2 * 3_600;

/** Seconds for which a counter of a receipt without an end is kept after its last use: 400 days. */
export const KEPT_UNUSED_SECS = 400 * 86_400;

export interface Counter extends Usage {
  calls: number;
  microUsd: number;
  /** Unix seconds, from which on it may be forgotten. Each use moves that of a receipt without an end. */
  end: number;
}

/** Steps of the search for counters that have ended, for each new one; the second where all places are taken. */
const STEPS = 4;
const STEPS_IF_FULL = 256;

/**
 * The limit that a call would exceed, root first and calls before costs; `null` if there is none.
 *
 * @param usage what earlier calls used, for each limit
 */
export function findReached({ limits, costMicroUsd }: Charge, usage: readonly Usage[]): ReachedLimit | null {
  for (const [at, { level, maxCalls, maxTotalMicroUsd, exp }] of limits.entries()) {
    const { calls, microUsd } = usage[at] as Usage;
    if (maxCalls !== null && calls >= maxCalls)
      return { level, member: 'max_calls', limit: maxCalls, used: calls, asked: 1, exp };
    // Not a sum, which could be above 2^53.
    if (maxTotalMicroUsd !== null && costMicroUsd > maxTotalMicroUsd - microUsd) {
      const [limit, used, asked] = [maxTotalMicroUsd, microUsd, costMicroUsd];
      return { level, member: 'max_total_cost_usd', limit, used, asked, exp };
    }
  }
  return null;
}

/**
 * What the calls under limited receipts have used, in the memory of this process. Where there is no place for another counter, calls
 * that need one are refused. No counter of a receipt with an end is forgotten while the receipt may be used.
 */
export class Counters {
  readonly #capacity: number;
  readonly byReceipt = new Map<string, Counter>();
  /** Goes around, looking for counters that have ended. */
  #search: IterableIterator<[string, Counter]>;
  /** The latest end of a counter that was forgotten. Where a clock goes back, receipts that ended by then are refused. */
  forgottenUntil = -Infinity;

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#search = this.byReceipt.entries();
  }

  /**
   * Charges a call to all its limits, or to none if it would exceed one.
   *
   * @throws ReplayStoreError if there is no place for a counter, or it may have been forgotten; then nothing is charged
   */
  charge(charge: Charge, now: number): Use {
    const before = charge.limits.map(({ receipt }) => this.byReceipt.get(receipt) ?? NOTHING);
    const limit = findReached(charge, before);
    if (limit !== null) return { kind: 'reached', limit };
    let needed = 0;
    for (const limits of charge.limits) {
      if (this.byReceipt.has(limits.receipt)) continue;
      needed++;
      if (endOf(limits, now) <= this.forgottenUntil)
        throw new ReplayStoreError('the clock has gone back, and calls under this receipt may be forgotten');
    }
    const isFull = this.byReceipt.size + needed > this.#capacity;
    this.forgetEnded(now, isFull ? STEPS_IF_FULL : STEPS * needed);
    if (this.byReceipt.size + needed > this.#capacity)
      throw new ReplayStoreError(`it is full: ${this.byReceipt.size} limited receipts are counted`);
    const usage = charge.limits.map((limits) => {
      const counter = this.byReceipt.get(limits.receipt) ?? { calls: 0, microUsd: 0, end: 0 };
      this.byReceipt.set(limits.receipt, counter);
      counter.end = endOf(limits, now);
      counter.calls++;
      if (limits.maxTotalMicroUsd !== null) counter.microUsd += charge.costMicroUsd;
      return { calls: counter.calls, microUsd: counter.microUsd };
    });
    return { kind: 'new', usage };
  }

  /** Gives back what a call was charged. @returns `false` if the counters do not have it; then nothing changes */
  refund({ calls, parts }: Pick<Refund, 'parts'> & { readonly calls: number }): boolean {
    const changes: [Counter, number][] = [];
    for (const { receipt, microUsd } of parts) {
      const counter = this.byReceipt.get(receipt);
      if (counter === undefined || counter.calls < calls || counter.microUsd < microUsd) return false;
      changes.push([counter, microUsd]);
    }
    for (const [counter, microUsd] of changes) {
      counter.calls -= calls;
      counter.microUsd -= microUsd;
    }
    return true;
  }

  /** @param steps how many counters are looked at, at most */
  forgetEnded(now: number, steps = Infinity): void {
    for (let left = steps; left > 0; left--) {
      const next = this.#search.next();
      if (next.done === true) {
        this.#search = this.byReceipt.entries();
        return;
      }
      const [receipt, { end }] = next.value;
      if (end > now) continue;
      this.byReceipt.delete(receipt);
      this.forgottenUntil = Math.max(this.forgottenUntil, end);
    }
  }
}

const NOTHING: Usage = { calls: 0, microUsd: 0 };

/** When a counter that is used now may be forgotten, in Unix seconds. */
function endOf({ exp }: CountedLimits, now: number): number {
  return exp === null ? now + KEPT_UNUSED_SECS : Math.min(exp + SPARE_SECS, Number.MAX_SAFE_INTEGER);
}
