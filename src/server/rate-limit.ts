import { isIPv6 } from 'node:net';
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
  /** Made when it is needed: it takes its memory, and milliseconds of the start, at once. */
  #clients: LRUCache<string, Bucket> | null = null;
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

/**
 * Who counts as one client: an IPv4 address, also where it is written as IPv6 (`::ffff:192.0.2.1`), or the first 64 bits
 * of an IPv6 address, since whoever has one address has all of its network.
 *
 * @param address in text, in any notation; what is no address counts as it is
 */
export function clientOf(address: string): string {
  if (!isIPv6(address)) return address;
  const groups = expand(address);
  const [high = 0, low = 0] = groups.slice(6);
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMapped) return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  return groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':');
}

/** The eight groups of an IPv6 address. */
function expand(address: string): number[] {
  const [before = [], after] = address
    .replace(/%.*$/, '')
    .split('::')
    .map((half) => (half === '' ? [] : half.split(':').flatMap(readGroup)));
  if (after === undefined) return before;
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** A group is 16 bits in hexadecimal; the last two may be written as an IPv4 address. */
function readGroup(text: string): number[] {
  if (!text.includes('.')) return [parseInt(text, 16)];
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number);
  return [(a << 8) | b, (c << 8) | d];
}
