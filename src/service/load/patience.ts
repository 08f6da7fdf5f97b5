// Fewer than two in a hundred give up for reasons of their own, and a moment in which the process stood still makes one
// bad interval.
const INTERVAL_MS = 100;
const GIVING_UP_SHARE = 1 / 50;
const MIN_BAD_INTERVALS = 2;
const LOWERING = 3;
const RAISING = 1.01;
const MIN_LIMIT_MS = 0.2;
const PLACES_PER_MS = 5;
/** The longest turn of the event loop, about. */
const TURN_MS = 12;

/**
 * How long the requests of a client may wait: as all others, until its callers give up while the service is busy. What is in flight may
 * then fit into all limits, and yet what comes has waited at the callers for nearly as long as they wait. Almost all of it is given up,
 * each time at the price of a connection, and it stays so (a metastable failure: Bronson et al., HotOS 2021). Their own queue ends only
 * if more is answered than asked. So the limit falls in each interval in which callers give up, and grows slowly in others.
 */
export class Patience {
  /** Milliseconds that a request may wait; Infinity if only the general limit holds. */
  limitMs = Infinity;
  readonly #maxMs: number;
  /** In a row. */
  #badIntervals = 0;
  /** Of this interval: requests that came, those that were given up, and how many of both found the service busy. */
  #taken = 0;
  #gaveUp = 0;
  #busy = 0;
  #since: number;

  /** @param maxMs the general limit */
  constructor(now: number, maxMs: number) {
    this.#since = now;
    this.#maxMs = maxMs;
  }

  get isLow(): boolean {
    return this.limitMs < Infinity;
  }

  /** How many may wait: any number, unless the limit is less than a turn, which reads all that has come before any of it is served. */
  get places(): number {
    return this.limitMs >= TURN_MS ? Infinity : Math.max(1, PLACES_PER_MS * this.limitMs);
  }

  /**
   * Counts a request that has come, or was given up.
   *
   * @param isBusy whether it found the service at work
   */
  count(hasGivenUp: boolean, isBusy: boolean, now: number): void {
    if (now - this.#since >= INTERVAL_MS) {
      const all = this.#taken + this.#gaveUp;
      const isBad = this.#gaveUp > GIVING_UP_SHARE * all;
      this.#badIntervals = isBad ? this.#badIntervals + 1 : 0;
      // Who gives up for another reason is not helped by a refusal.
      if (this.#busy < all / 2) this.limitMs = Infinity;
      else if (!isBad) this.limitMs *= RAISING;
      else if (this.isLow || this.#badIntervals >= MIN_BAD_INTERVALS)
        this.limitMs = Math.max(MIN_LIMIT_MS, Math.min(this.limitMs, this.#maxMs) / LOWERING);
      if (this.limitMs > this.#maxMs) this.limitMs = Infinity;
      this.#taken = this.#gaveUp = this.#busy = 0;
      this.#since = now;
    }
    if (hasGivenUp) this.#gaveUp++;
    else this.#taken++;
    if (isBusy) this.#busy++;
  }

  /** Whether nothing was counted for so many milliseconds. */
  isOlderThan(ms: number, now: number): boolean {
    return now - this.#since > ms;
  }
}
