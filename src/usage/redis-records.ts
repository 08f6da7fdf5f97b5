import type { CountedLimits } from '../verify/limits.js';
import { counterPatternOf, limitedNamesOf, nameOf, olderNamesOf, previousNameOf } from './redis-names.js';
import { chargeInRedis, refundInRedis, type Charged } from './redis-script.js';
import {
  NEW,
  REPLAYED,
  type Charge,
  type Pruned,
  type Refund,
  type RefundPart,
  type ReplayStoreError,
  type Usage,
  type Use,
} from './usage-store.js';

/** After the prefix, the name of how many counters have no end. No other name is like it. */
const ENDLESS_NAME = 'endless';

/** What PTTL says of a name without an end. */
const ENDLESS = -1;

/** What {@link RedisRecords} needs of its Redis. */
export interface RedisAccess {
  /** Comes before each name. */
  readonly prefix: string;
  /** Whether instances of the version before may run, or what they recorded may count. */
  isRolling(ttlMs: number): boolean;
  isCluster(): boolean;
  /** Sends a command to the server that has the key. */
  send(key: string, command: readonly string[]): Promise<unknown>;
  /** The names that match a pattern, of all servers. */
  scan(pattern: string): Promise<readonly string[]>;
}

/** Used invocations and counters, as they are in Redis: which names are read and written, and in which order. */
export class RedisRecords {
  readonly #redis: RedisAccess;
  #endless: number | undefined;

  constructor(redis: RedisAccess) {
    this.#redis = redis;
  }

  /** How many counters have no end, if it is known. About: where a process dies before it says so, {@link prune} corrects it. */
  get endless(): number | undefined {
    return this.#endless;
  }

  /** Reads that again. */
  lookAtEndless(): Promise<void> {
    return this.#countEndless('GET');
  }

  /**
   * Records an invocation. While instances of the previous version may run, it is new if it is under both names. One after
   * the other: of several equal calls, the one that gets the previous name also gets the current one.
   */
  async record(key: string, ttlMs: number): Promise<Use> {
    const { prefix } = this.#redis;
    if (this.#redis.isRolling(ttlMs)) {
      const [isNew, isKnown] = await Promise.all([
        this.#set(previousNameOf(prefix, key), ttlMs),
        this.#hasAny(olderNamesOf(prefix, key)),
      ]);
      if (!isNew || isKnown) return REPLAYED;
    }
    return (await this.#set(nameOf(prefix, key), ttlMs)) ? NEW : REPLAYED;
  }

  /**
   * Records an invocation under limited receipts and charges its call. Older versions have recorded it like any other, and
   * look at such records. In a cluster those are on other nodes: there the call is recorded as before first, and no longer
   * if it is refused.
   */
  async charge(key: string, ttlMs: number, charge: Charge): Promise<Use | ReplayStoreError> {
    const { prefix } = this.#redis;
    const names = limitedNamesOf(prefix, (charge.limits[0] as CountedLimits).receipt);
    const counters = charge.limits.map(({ receipt }) => names.counter(receipt));
    const own = names.use(key);
    const send = (command: readonly string[]) => this.#redis.send(own, command);
    const isRolling = this.#redis.isRolling(ttlMs);
    if (!isRolling || !this.#redis.isCluster()) {
      const records = isRolling ? [own, nameOf(prefix, key), previousNameOf(prefix, key)] : [own];
      const others = isRolling ? olderNamesOf(prefix, key) : [];
      return this.#counted(await chargeInRedis(send, charge, { counters, records, others }, ttlMs));
    }
    if ((await this.record(key, ttlMs)) === REPLAYED) return REPLAYED;
    const used = this.#counted(
      await chargeInRedis(send, charge, { counters, records: [own], others: [] }, ttlMs),
    );
    if (used instanceof Error || used.kind === 'reached')
      for (const name of [nameOf(prefix, key), previousNameOf(prefix, key)])
        await this.#redis.send(name, ['DEL', name]);
    return used;
  }

  /** Gives back what a call was charged. Its record has the same name in every version of the names that may charge. */
  refund(key: string, refund: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    const { parts } = refund;
    const names = limitedNamesOf(this.#redis.prefix, (parts[0] as RefundPart).receipt);
    const record = names.use(key);
    const counters = parts.map(({ receipt }) => names.counter(receipt));
    return refundInRedis((command) => this.#redis.send(record, command), refund, record, counters);
  }

  /** Only a chain says how the name of a counter begins. A receipt that is the first one of its chain is found at once. */
  async usageOf(receipt: string): Promise<Usage | null> {
    const { prefix } = this.#redis;
    const first = await this.#read(limitedNamesOf(prefix, receipt).counter(receipt));
    if (first !== null) return first;
    const [name] = await this.#redis.scan(counterPatternOf(prefix, receipt));
    return name === undefined ? null : this.#read(name);
  }

  /** Forgets the counters without end of these receipts. A search over all names, since only a chain says how one begins. */
  async prune(receipts: ReadonlySet<string>): Promise<Pruned> {
    let [removed, left] = [0, 0];
    for (const name of await this.#redis.scan(counterPatternOf(this.#redis.prefix, 'sha256:*'))) {
      if ((await this.#redis.send(name, ['PTTL', name])) !== ENDLESS) continue;
      if (!receipts.has(`sha256:${name.slice(name.lastIndexOf('#') + 1)}`)) left++;
      else if ((await this.#redis.send(name, ['DEL', name])) === 1) removed++;
    }
    await this.#countEndless('SET', left);
    await this.#countEndless('GET');
    return { removed, left };
  }

  /** The call does not wait: in a cluster the number is on another node, and no verdict depends on it. */
  #counted({ used, endless }: Charged): Use | ReplayStoreError {
    if (endless > 0) void this.#countEndless('INCRBY', endless);
    return used;
  }

  /** Never rejects: what Redis does not tell stays as it was known. */
  async #countEndless(command: 'GET' | 'SET' | 'INCRBY', ...numbers: readonly number[]): Promise<void> {
    const name = this.#redis.prefix + ENDLESS_NAME;
    const answer = await this.#redis.send(name, [command, name, ...numbers.map(String)]).catch(() => NaN);
    if (Number.isSafeInteger(Number(answer))) this.#endless = Number(answer);
  }

  async #read(counter: string): Promise<Usage | null> {
    const found = await this.#redis.send(counter, ['HMGET', counter, 'calls', 'micro_usd']);
    const [calls, microUsd] = found as [string | null, string | null];
    return calls === null ? null : { calls: Number(calls), microUsd: Number(microUsd) };
  }

  async #set(name: string, ttlMs: number): Promise<boolean> {
    return (await this.#redis.send(name, ['SET', name, '1', 'PX', String(ttlMs), 'NX'])) === 'OK';
  }

  /** Older versions could not use a cluster. */
  async #hasAny(names: readonly string[]): Promise<boolean> {
    if (this.#redis.isCluster()) return false;
    return (await this.#redis.send('', ['EXISTS', ...names])) !== 0;
  }
}
