import { LRUCache } from 'lru-cache';

const MAX_CLIENTS = 100_000;

/** A token bucket. Its capacity is the number of requests of one period. */
class Bucket {
  #tokens: number;
  #filledAt: number;

  constructor(rate: number, now: number) {
    this.#tokens = rate;
    this.#filledAt = now;
  }

  /** Takes a token. @returns 0, or the seconds until there is a token */
  take(rate: number, now: number, periodSecs: number): number {
    const perSecond = rate / periodSecs;
    this.#tokens = Math.min(rate, this.#tokens + ((now - this.#filledAt) / 1000) * perSecond);
    this.#filledAt = now;
    if (this.#tokens < 1) return (1 - this.#tokens) / perSecond;
    this.#tokens--;
    return 0;
  }
}

/** Limits the requests of one class of endpoints, for each client and for all clients together. */
export class RateLimit {
  readonly #perClient: number;
  readonly #overall: number;
  readonly #periodSecs: number;
  /** Created on first use: creating it takes memory and some milliseconds. */
  #clients: LRUCache<string, Bucket> | null = null;
  #all: Bucket | null = null;

  /** The limits are requests per period; 0 is no limit. */
  constructor(perClient: number, overall: number, periodSecs = 1) {
    this.#periodSecs = periodSecs;
    this.#perClient = perClient;
    this.#overall = overall;
  }

  get isOn(): boolean {
    return this.#perClient > 0 || this.#overall > 0;
  }

  /**
   * Counts a request.
   *
   * @param client the result of {@link clientOf} for its address
   * @param now milliseconds of a monotonic clock
   * @returns 0 if it is within the limits, else the seconds after which to try again
   */
  admit(client: string, now = performance.now()): number {
    if (this.#perClient > 0) {
      const clients = (this.#clients ??= new LRUCache({ max: MAX_CLIENTS }));
      let bucket = clients.get(client);
      if (bucket === undefined) clients.set(client, (bucket = new Bucket(this.#perClient, now)));
      const wait = bucket.take(this.#perClient, now, this.#periodSecs);
      if (wait > 0) return wait;
    }
    if (this.#overall === 0) return 0;
    this.#all ??= new Bucket(this.#overall, now);
    return this.#all.take(this.#overall, now, this.#periodSecs);
  }
}
