import { LRUCache } from 'lru-cache';

const MAX_CLIENTS = 100_000;

/** A token bucket that holds one period's worth of requests. */
class Bucket {
  #tokens: number;
  #filledAt: number;

  constructor(rate: number, now: number) {
    this.#tokens = rate;
    this.#filledAt = now;
  }

  /** Takes a token, or tells in how many seconds there will be one. */
  take(rate: number, now: number, periodSecs: number): number {
    const perSecond = rate / periodSecs;
    this.#tokens = Math.min(rate, this.#tokens + ((now - this.#filledAt) / 1000) * perSecond);
    this.#filledAt = now;
    if (this.#tokens < 1) return (1 - this.#tokens) / perSecond;
    this.#tokens--;
    return 0;
  }
}

/** Limits the requests of one class of endpoints, for each client and overall. */
export class RateLimit {
  readonly #perClient: number;
  readonly #overall: number;
  readonly #periodSecs: number;
  readonly #clients = new LRUCache<string, Bucket>({ max: MAX_CLIENTS });
  #all: Bucket | null = null;

  /** Requests in a period, by default a second; 0 is no limit. */
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
   * @param client what {@link clientOf} makes of its address
   * @param now milliseconds of a clock that never goes back
   * @returns 0 where it may pass, or the seconds after which to try again
   */
  admit(client: string, now = performance.now()): number {
    if (this.#perClient > 0) {
      let bucket = this.#clients.get(client);
      if (bucket === undefined) this.#clients.set(client, (bucket = new Bucket(this.#perClient, now)));
      const wait = bucket.take(this.#perClient, now, this.#periodSecs);
      if (wait > 0) return wait;
    }
    if (this.#overall === 0) return 0;
    this.#all ??= new Bucket(this.#overall, now);
    return this.#all.take(this.#overall, now, this.#periodSecs);
  }
}

const MAPPED_PREFIX = '\0'.repeat(10) + '\xff\xff';

/**
 * Who counts as one client: an IPv4 address, also where it is written as IPv6 (`::ffff:192.0.2.1`), or the first 64 bits
 * of an IPv6 address, since whoever has one address has all of its network.
 *
 * @param address 4 or 16 bytes
 */
export function clientOf(address: ArrayBuffer): string {
  const text = Buffer.from(address).toString('latin1');
  if (text.length !== 16) return text;
  return text.startsWith(MAPPED_PREFIX) ? text.slice(12) : text.slice(0, 8);
}
