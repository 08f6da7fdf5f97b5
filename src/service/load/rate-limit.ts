import { isIPv6 } from 'node:net';
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

/**
 * The key under which a client is counted: an IPv4 address (also if written as IPv6, `::ffff:192.0.2.1`), or the
 * first 64 bits of an IPv6 address, since the owner of one address usually has the whole /64 network.
 *
 * @param address text in any notation; a text that is not an address is returned unchanged
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
    .replace(/%.*/, '')
    .split('::')
    .map((half) => (half === '' ? [] : half.split(':').flatMap(readGroup)));
  if (after === undefined) return before;
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** Reads 16 bits in hexadecimal, or 32 bits written as an IPv4 address. */
function readGroup(text: string): number[] {
  if (!text.includes('.')) return [parseInt(text, 16)];
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number);
  return [(a << 8) | b, (c << 8) | d];
}
