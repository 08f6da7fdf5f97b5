import { checkedOptions, count, flag, having, oneOf, text } from '../protocol/options.js';
import type { FilledOptions, GivenOptions, Table } from '../protocol/options.js';
import { reasonOf, rejectAfter } from '../redis/connection.js';
import { faultOf, RedisLink, type RedisFault } from '../redis/link.js';
import { MAX_CLOCK_DIFFERENCE_MS, RedisMark } from './redis-mark.js';
import { RedisRecords } from './redis-records.js';
import { DEFAULT_REDIS_TIMEOUT_MS, ReplayStoreError } from './usage-store.js';
import type { Charge, Refund, Usage, Use } from './usage-store.js';
import type { ReplayLog, ReplayStore, ReplayUnreadyReason } from './usage-store.js';

/** What to set where a Redis without a file is meant. */
export const FORGETTING =
  'REDIS_MAY_FORGET (mayForget), if it may: calls from before a restart are then refused';

const OPTIONS = {
  /**
   * `redis://` or `rediss://` (TLS), with credentials and database as `redis` takes them. Of several, separated by
   * commas, the primary is used; of a Redis Cluster some nodes are enough.
   */
  url: { kind: text('a URL with `redis://` or `rediss://`, or several'), required: true, isSecret: true },
  /** Comes before each key; default `drs:replay:`. Servers that share it refuse each other's replays. */
  keyPrefix: { kind: text('a text'), default: 'drs:replay:' },
  /** Milliseconds to wait for an answer of Redis to a command before a call is refused; default 50. */
  timeoutMs: { kind: count(1), default: DEFAULT_REDIS_TIMEOUT_MS },
  /**
   * What becomes of calls under receipts with limits that were issued before Redis may have lost what it had counted: `refuse`
   * (default), or `pass`: they are counted from what it still has.
   */
  limitsAfterLoss: { kind: oneOf('refuse', 'pass'), default: 'refuse' },
  /** Replicas that must have a charge before its call is allowed; default 0. A fail-over to one loses no charge: calls go on. */
  waitReplicas: { kind: count(0, 16), default: 0 },
  /**
   * Whether Redis may keep it in memory only (`appendonly no`): after a restart of Redis, calls that were signed before are refused,
   * and those under limits from before, by `limitsAfterLoss`. Default `false`.
   */
  mayForget: { kind: flag, default: false },
  /** Gets a line each time that Redis goes away, with the reason (`err`), or comes back. A pino logger has this type. Default: no log. */
  log: { kind: having<ReplayLog>('warn', 'a log, such as of pino') },
} satisfies Table;

/** Options of {@link openRedisReplayStore}. */
export interface RedisReplayStoreOptions extends GivenOptions<typeof OPTIONS> {}

/**
 * A replay store in Redis, shared by all instances that use it: `SET name 1 NX PX ttl`. Each invocation has a key of its own, so a
 * Redis Cluster distributes them. A call under limited receipts is recorded and charged by a script, whose keys are on one node.
 *
 * If Redis does not answer in time, the call is refused, although Redis may have recorded its invocation. After three failures in a
 * row, or a lost connection, every call is refused at once, and the store tests in the background whether Redis records again.
 *
 * In a cluster each node fails alone: only calls whose key belongs to a failed node are refused.
 *
 * Redis must not evict keys (`maxmemory-policy noeviction`) and must be the primary: an invocation that it forgets can
 * be replayed. The store looks every few seconds, and refuses every call while any primary may evict.
 *
 * @throws ReplayStoreError if Redis is not reached within 5 s, records nothing or evicts keys, or the package `redis` is missing
 * @throws TypeError if an option is unknown or not of its kind
 * @example const replayStore = await openRedisReplayStore({ url: 'redis://127.0.0.1:6379', log: pino() });
 */
export async function openRedisReplayStore(
  options: RedisReplayStoreOptions,
  { lookMs }: { /** Only tests change it. */ readonly lookMs?: number } = {},
): Promise<ReplayStore> {
  const store = new RedisReplayStore(checkedOptions(options, OPTIONS), lookMs);
  await store.open();
  return store;
}

/** By the fault of Redis: why nothing is recorded, what a refused call is told, and what the log says once. */
const FAULTS: Readonly<Record<RedisFault, readonly [ReplayUnreadyReason, call: string, log: string]>> = {
  away: [
    'replay_store_unreachable',
    'Redis did not record it',
    'does not record: calls are refused until it does again',
  ],
  forgets: [
    'replay_store_evicts',
    'Redis may evict what it records',
    'may evict used invocations: calls are refused until its maxmemory-policy is noeviction',
  ],
  full: ['replay_store_full', 'Redis is full', 'is full: calls are refused until it has room again'],
};

/** Number of failures in a row after which every call is refused at once, so that callers do not each wait. */
const MAX_FAILURES = 3;
const LOG_PAUSE_MS = 10_000;

/** The options of a store that {@link openRedisReplayStore} has opened, for what else is kept in its Redis; `null` of any other. */
export const redisOptionsOf = (store: unknown) => (store instanceof RedisReplayStore ? store.options : null);

class RedisReplayStore implements ReplayStore {
  readonly #options: FilledOptions<typeof OPTIONS>;
  readonly #link: RedisLink;
  readonly #records: RedisRecords;
  readonly #mark: RedisMark;
  /** How often Redis has lost data while this process ran. */
  losses = 0;
  #failures = 0;
  /** How many replicas have what was charged in this turn; `null` if nothing was. */
  #waiting: Promise<unknown> | null = null;
  #nodeLoggedAt = -Infinity;

  constructor(options: FilledOptions<typeof OPTIONS>, lookMs: number | undefined) {
    const { url, keyPrefix, log } = options;
    this.#options = options;
    this.#mark = new RedisMark(`${keyPrefix}mark`, options.waitReplicas > 0, ({ loss, isNewStore }) => {
      this.losses++;
      const { place } = this.#link;
      const { lostAt, isFoundHere } = this.#mark;
      const what = isNewStore
        ? `${place} is a new store: what was used before is not known`
        : `${place} may have lost ${loss === 'all' ? 'records and counts of calls' : 'what it recorded last'}`;
      const rule =
        loss === 'all' && this.emptiedAt > 0
          ? ', and calls under receipts with limits from before, until LIMITS_AFTER_LOSS=pass'
          : '';
      const line = `${what}; calls that were signed before are refused${rule}`;
      if (isNewStore) log?.warn({ lostAt }, line);
      else log?.error({ lostAt, isFoundHere }, line);
    });
    this.#link = new RedisLink({
      url,
      lookMs,
      log,
      callMs: options.timeoutMs,
      keeps: 'used invocations',
      needsFile: !options.mayForget && FORGETTING,
      write: (connection, facts) => this.#mark.look(connection, facts),
      onDown: (error, fault) => log?.error({ err: error }, `${this.#link.place} ${FAULTS[fault][2]}`),
      onBack: () => {
        this.#failures = 0;
        log?.info({}, `${this.#link.place} records again: calls are no longer refused`);
      },
    });
    this.#records = new RedisRecords(this.#link, keyPrefix);
  }

  get options(): FilledOptions<typeof OPTIONS> {
    return this.#options;
  }

  async open(): Promise<void> {
    try {
      await this.#link.open();
    } catch (error) {
      this.#link.close();
      throw new ReplayStoreError(reasonOf(error), { cause: error });
    }
  }

  get lostAt(): number {
    return this.#mark.lostAt;
  }

  get emptiedAt(): number {
    return this.#options.limitsAfterLoss === 'pass' ? 0 : this.#mark.emptiedAt;
  }

  get isLossFoundHere(): boolean | null {
    return this.#mark.isFoundHere;
  }

  get clockAheadSecs(): number {
    return this.#mark.leadMs / 1000;
  }

  get unreadyReason(): ReplayUnreadyReason | null {
    const { error } = this.#link;
    if (error !== null) return FAULTS[faultOf(error)][0];
    return Math.abs(this.#mark.leadMs) > MAX_CLOCK_DIFFERENCE_MS ? 'replay_store_clock' : null;
  }

  use(key: string, _now: number, ttlSecs: number, charge: Charge | null): Promise<Use> {
    const ttlMs = ttlSecs * 1000;
    return this.#guard(async () => {
      if (charge === null) return this.#records.record(key, ttlMs);
      const use = await this.#records.charge(key, ttlMs, charge);
      if (use.kind === 'new' && this.#options.waitReplicas > 0) await this.#replicated();
      return use;
    });
  }

  refund(key: string, refund: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    return this.#guard(() => this.#records.refund(key, refund));
  }

  /** Not guarded: a slow search must not count as a failure of calls. */
  async usageOf(receipt: string): Promise<Usage | null> {
    const { error: linkError, place } = this.#link;
    if (linkError !== null) throw refusalOf(linkError);
    try {
      return await this.#records.usageOf(receipt);
    } catch (error) {
      throw new ReplayStoreError(`${place} does not tell: ${reasonOf(error)}`, { cause: error });
    }
  }

  close(): Promise<void> {
    this.#link.close();
    return Promise.resolve();
  }

  /**
   * Sends commands, unless Redis is known to be away. Nodes of a cluster fail one by one: calls to the others go on.
   *
   * @throws ReplayStoreError if Redis does not do what it is told
   */
  async #guard<T>(task: () => Promise<T>): Promise<T> {
    const { error: linkError, connection } = this.#link;
    if (linkError !== null) throw refusalOf(linkError);
    try {
      const result = await task();
      this.#failures = 0;
      return result;
    } catch (error) {
      // Redis has answered that it cannot tell about this call: it is not away.
      if (error instanceof ReplayStoreError) throw error;
      if (connection?.isCluster === true) {
        const now = performance.now();
        const message = `${this.#link.place}: a node does not record; calls that belong to it are refused`;
        if (now - this.#nodeLoggedAt >= LOG_PAUSE_MS) {
          this.#nodeLoggedAt = now;
          this.#options.log?.error({ err: error }, message);
        }
      } else if (++this.#failures >= MAX_FAILURES && this.#link.error === null)
        this.#link.fail(error as Error);
      throw refusalOf(error);
    }
  }

  /**
   * Waits for replicas, once for all charges answered in one turn: meanwhile Redis answers nothing else on this connection.
   *
   * @throws ReplayStoreError if too few have them in time
   */
  async #replicated(): Promise<void> {
    const { waitReplicas, timeoutMs } = this.#options;
    this.#waiting ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.#waiting = null;
        const wait = ['WAIT', String(waitReplicas), String(timeoutMs)];
        const waiting = this.#link.connection?.send('', wait) ?? Promise.resolve(0);
        // Redis waits this long, too, and may then not answer.
        rejectAfter(2 * timeoutMs, waiting).then(resolve, reject);
      });
    });
    const replicas = Number(await this.#waiting);
    if (replicas < waitReplicas)
      throw new ReplayStoreError(`${replicas} replicas of Redis have the charge, expected ${waitReplicas}`);
  }
}

/** What a call is told that is refused for an error of Redis. */
function refusalOf(error: unknown): ReplayStoreError {
  return new ReplayStoreError(FAULTS[faultOf(error)][1], { cause: error });
}
