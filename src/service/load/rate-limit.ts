import { LRUCache } from 'lru-cache';
import type { Configuration } from '../configuration/configuration.js';

const MAX_CLIENTS = 100_000;
/** Stands for all clients together. No client has this name. */
const ALL = '';

/** A token bucket. Its capacity is the number of requests of one period. */
interface Bucket {
  tokens: number;
  filledAt: number;
}

/** Limits the requests of one class of endpoints, for each client and for all clients together. */
export class RateLimit {
  readonly #perClient: number;
  readonly #overall: number;
  readonly #periodSecs: number;
  /** Created on first use: creating it takes memory and some milliseconds. */
  #buckets: LRUCache<string, Bucket> | null = null;

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
    return this.#take(client, this.#perClient, now) || this.#take(ALL, this.#overall, now);
  }

  /** Takes a token. @returns 0, or the seconds until there is a token */
  #take(key: string, rate: number, now: number): number {
    if (rate === 0) return 0;
    const buckets = (this.#buckets ??= new LRUCache({ max: MAX_CLIENTS }));
    let bucket = buckets.get(key);
    if (bucket === undefined) buckets.set(key, (bucket = { tokens: rate, filledAt: now }));
    const perSecond = rate / this.#periodSecs;
    bucket.tokens = Math.min(rate, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond);
    bucket.filledAt = now;
    if (bucket.tokens < 1) return (1 - bucket.tokens) / perSecond;
    bucket.tokens--;
    return 0;
  }
}

/** A limit as configured; `null` if there is none. */
export function limitOf({ rateLimitPerIp, rateLimitGlobal }: Configuration): RateLimit | null {
  const rateLimit = new RateLimit(rateLimitPerIp, rateLimitGlobal);
  return rateLimit.isOn ? rateLimit : null;
}
