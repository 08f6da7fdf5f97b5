import { LRUCache } from 'lru-cache';

const MOST_CLIENTS = 100_000;

/** A token bucket that holds one second's worth of requests. */
class Bucket {
  #tokens: number;
  #filledAt: number;

  constructor(rate: number, now: number) {
    this.#tokens = rate;
    this.#filledAt = now;
  }

  /** Takes a token, or tells in how many seconds there will be one. */
  take(rate: number, now: number): number {
    this.#tokens = Math.min(rate, this.#tokens + ((now - this.#filledAt) / 1000) * rate);
    this.#filledAt = now;
    if (this.#tokens < 1) return (1 - this.#tokens) / rate;
    this.#tokens--;
    return 0;
  }
}

/** Limits requests for each client address and overall. */
export class RateLimit {
  readonly #perClient: number;
  readonly #overall: number;
  readonly #clients = new LRUCache<string, Bucket>({ max: MOST_CLIENTS });
  #all: Bucket | null = null;

  /** Requests a second; 0 is no limit. */
  constructor(perClient: number, overall: number) {
    this.#perClient = perClient;
    this.#overall = overall;
  }

  get isOn(): boolean {
    return this.#perClient > 0 || this.#overall > 0;
  }

  /**
   * Counts a request.
   *
   * @param client the client's address in any form
   * @param now milliseconds of a clock that never goes back
   * @returns 0 where it may pass, or the seconds after which to try again
   */
  admit(client: string, now = performance.now()): number {
    if (this.#perClient > 0) {
      let bucket = this.#clients.get(client);
      if (bucket === undefined) this.#clients.set(client, (bucket = new Bucket(this.#perClient, now)));
      const wait = bucket.take(this.#perClient, now);
      if (wait > 0) return wait;
    }
    if (this.#overall === 0) return 0;
    this.#all ??= new Bucket(this.#overall, now);
    return this.#all.take(this.#overall, now);
  }
}
