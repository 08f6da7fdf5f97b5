import { createHash } from 'node:crypto';
import type { CountedLimits } from '../verify/limits.js';
import { chargeInRedis, refundInRedis } from './redis-script.js';
import {
  NEW,
  REPLAYED,
  type Charge,
  type Refund,
  type RefundPart,
  type ReplayStoreError,
  type Usage,
  type Use,
} from './usage-store.js';

/**
 * The version of the names of keys. Whoever changes what a name looks like, or what a key of `replayKey` stands for,
 * raises it, and lets both names count for a while: otherwise an upgrade accepts every replay.
 */
const VERSION = 1;

const DIGEST_BYTES = 16;

/** What {@link RedisRecords} needs of its Redis. */
export interface RedisAccess {
  /** Comes before each name. */
  readonly prefix: string;
  /** Sends a command to the server that has the key. */
  send(key: string, command: readonly string[]): Promise<unknown>;
  /** A name that matches a pattern, of any server. */
  find(pattern: string): Promise<string | undefined>;
}

/** Used invocations and counters, as they are in Redis: which names are read and written. */
export class RedisRecords {
  readonly #redis: RedisAccess;

  constructor(redis: RedisAccess) {
    this.#redis = redis;
  }

  /** Records an invocation. Its name has a fixed length, and a caller cannot choose its node in a cluster. */
  async record(key: string, ttlMs: number): Promise<Use> {
    const name = `${this.#redis.prefix}${VERSION}:${digestOf(key)}`;
    const answer = await this.#redis.send(name, ['SET', name, '1', 'PX', String(ttlMs), 'NX']);
    return answer === 'OK' ? NEW : REPLAYED;
  }

  /** Records an invocation under limited receipts and charges its call. */
  charge(key: string, ttlMs: number, charge: Charge): Promise<Use | ReplayStoreError> {
    const chain = this.#chainOf((charge.limits[0] as CountedLimits).receipt);
    const record = `${chain}:${digestOf(key)}`;
    const counters = charge.limits.map(({ receipt }) => chain + counterEndOf(receipt));
    return chargeInRedis((command) => this.#redis.send(record, command), charge, record, counters, ttlMs);
  }

  /** Gives back what a call was charged. */
  refund(key: string, refund: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    const chain = this.#chainOf((refund.parts[0] as RefundPart).receipt);
    const record = `${chain}:${digestOf(key)}`;
    const counters = refund.parts.map(({ receipt }) => chain + counterEndOf(receipt));
    return refundInRedis((command) => this.#redis.send(record, command), refund, record, counters);
  }

  /** Only a chain says how the name of a counter begins. A receipt that is the first one of its chain is found at once. */
  async usageOf(receipt: string): Promise<Usage | null> {
    const end = counterEndOf(receipt);
    const first = await this.#read(this.#chainOf(receipt) + end);
    if (first !== null) return first;
    const prefix = this.#redis.prefix.replaceAll(/[*?[\]\\^-]/g, '\\$&');
    const name = await this.#redis.find(`${prefix}${VERSION}:{*}${end}`);
    return name === undefined ? null : this.#read(name);
  }

  /**
   * How all names of a limited chain begin: on a cluster, a script reaches the keys of one slot only, and `{…}` says which.
   *
   * @param first the digest of the first limited receipt of the chain, so that the nodes of a cluster share the chains
   */
  #chainOf(first: string): string {
    return `${this.#redis.prefix}${VERSION}:{${digestOf(first)}}`;
  }

  async #read(counter: string): Promise<Usage | null> {
    const found = await this.#redis.send(counter, ['HMGET', counter, 'calls', 'micro_usd']);
    const [calls, microUsd] = found as [string | null, string | null];
    return calls === null ? null : { calls: Number(calls), microUsd: Number(microUsd) };
  }
}

/**
 * A digest takes less memory than the key. It also keeps callers, who choose the `jti`, from choosing the node of a
 * cluster with `{…}` in the key. If two invocations had the same digest, one would be refused as a replay. With 128
 * bits, nobody can make one that has the digest of another.
 */
function digestOf(key: string): string {
  return createHash('sha256').update(key).digest().toString('base64url', 0, DIGEST_BYTES);
}

/** The whole digest: somebody may look for a receipt by it. */
function counterEndOf(receipt: string): string {
  return `#${receipt.slice('sha256:'.length)}`;
}
