import {
  callback,
  checkedOptions,
  count,
  having,
  text,
  type FilledOptions,
  type GivenOptions,
  type Table,
} from '../protocol/options.js';
import { setTimeout as pause } from 'node:timers/promises';
import {
  connectRedis,
  CONNECT_TIMEOUT_MS,
  noConnection,
  placeOf,
  reasonOf,
  type RedisConnection,
} from '../redis/connection.js';
import { readMemory } from '../redis/memory.js';
import { rejectAfter } from '../redis/reject-after.js';
import { Breaker } from './breaker.js';
import { FAULTS, RedisFault, refusalOf, unreadyReasonOf } from './redis-faults.js';
import { RedisRecords } from './redis-records.js';
import {
  ReplayStoreError,
  type Charge,
  type Pruned,
  type Refund,
  type ReplayLog,
  type ReplayStore,
  type ReplayUnreadyReason,
  type Usage,
  type Use,
} from './usage-store.js';

/** The default of `timeoutMs`. */
export const DEFAULT_REDIS_TIMEOUT_MS = 50;

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
  /** Gets a line each time that Redis goes away or comes back. A pino logger has this type. Default: no log. */
  log: { kind: having<ReplayLog>('warn', 'a log, such as of pino') },
  /** Called when Redis goes away, with the reason: once, not for each refused call. */
  onError: { kind: callback<(error: Error) => void>() },
} satisfies Table;

/** Options of {@link openRedisReplayStore}. */
export interface RedisReplayStoreOptions extends GivenOptions<typeof OPTIONS> {}

/** Periods of the store. Only tests change them. */
export interface RedisReplayPeriods {
  /** Milliseconds between two looks at Redis, ± a quarter. A look takes 5 s at most. */
  readonly lookMs: number;
  /** Milliseconds after the start for which instances of the previous version may still record. */
  readonly rollMs: number;
}

const PERIODS: RedisReplayPeriods = { lookMs: 4_000, rollMs: 3_600_000 };
const PROBE_TTL_MS = 1_000;
const LOADING_PAUSE_MS = 100;
const LOG_PAUSE_MS = 10_000;

/**
 * A replay store in Redis, shared by all instances that use it: `SET name 1 NX PX ttl`. Each invocation has a key of
 * its own, so a Redis Cluster distributes them among its nodes. A call under limited receipts is recorded and charged by a
 * script, whose keys are on one node.
 *
 * If Redis does not answer in time, the call is refused, although Redis may have recorded its invocation. After three
 * failures in a row, or if the connection is lost, every call is refused at once. Meanwhile the store tests in the
 * background whether Redis records again.
 *
 * In a cluster each node fails alone: only calls whose key belongs to a failed node are refused.
 *
 * Redis must not evict keys (`maxmemory-policy noeviction`) and must be the primary: an invocation that it forgets can
 * be replayed. The store looks every few seconds, and refuses every call while any primary may evict.
 *
 * @throws ReplayStoreError if Redis cannot be reached within 5 s, records nothing or evicts keys, or the package `redis`
 *   is not installed
 * @throws TypeError if an option is unknown or not of its kind
 * @example const replayStore = await openRedisReplayStore({ url: 'redis://127.0.0.1:6379', log: pino() });
 */
export async function openRedisReplayStore(
  options: RedisReplayStoreOptions,
  periods: Partial<RedisReplayPeriods> = {},
): Promise<ReplayStore> {
  const store = new RedisReplayStore(checkedOptions(options, OPTIONS), { ...PERIODS, ...periods });
  await store.open();
  return store;
}

class RedisReplayStore implements ReplayStore {
  readonly #options: FilledOptions<typeof OPTIONS>;
  readonly #periods: RedisReplayPeriods;
  readonly #keyPrefix: string;
  readonly #records: RedisRecords;
  readonly #timeoutMs: number;
  readonly #place: string;
  readonly #breaker: Breaker;
  readonly #ended = new AbortController();
  readonly #startedAt = performance.now();
  // Set by `open` and `#probe`. A lost connection to a single server is never ready again, so it is replaced.
  #connection: RedisConnection | null = null;
  #isPolicyKnown = true;
  #loggedReason: ReplayUnreadyReason | null = null;
  #nodeLoggedAt = -Infinity;

  constructor(options: FilledOptions<typeof OPTIONS>, periods: RedisReplayPeriods) {
    const { url, keyPrefix, timeoutMs, log, onError } = options;
    this.#options = options;
    this.#periods = periods;
    this.#keyPrefix = keyPrefix;
    this.#records = new RedisRecords({
      prefix: keyPrefix,
      isRolling: (ttlMs) => performance.now() - this.#startedAt < periods.rollMs + ttlMs,
      isCluster: () => this.#connection?.isCluster === true,
      send: (key, command) => this.#send(key, command),
      scan: async (pattern) => (await this.#connection?.scan(pattern, CONNECT_TIMEOUT_MS)) ?? [],
    });
    this.#timeoutMs = timeoutMs;
    this.#place = placeOf(url);
    this.#breaker = new Breaker({
      probe: () => this.#probe(),
      onOpen: (error) => {
        this.#logFault(error);
        onError?.(error);
      },
      onClose: (openMs) => {
        this.#loggedReason = null;
        const refusedMs = Math.round(openMs);
        log?.info({ refusedMs }, `${this.#place} records again: calls are no longer refused`);
      },
      ended: this.#ended.signal,
    });
  }

  async open(): Promise<void> {
    let connection: RedisConnection;
    try {
      connection = await this.#connect();
    } catch (error) {
      throw new ReplayStoreError(noConnection(this.#options.url, error), { cause: error });
    }
    try {
      await this.#lookOnceLoaded(connection);
    } catch (error) {
      connection.destroy();
      const message =
        error instanceof RedisFault ? error.message : `${this.#place} does not record: ${reasonOf(error)}`;
      throw new ReplayStoreError(message, { cause: error });
    }
    this.#connection = connection;
    await this.#records.lookAtEndless();
    void this.#watch();
  }

  get unreadyReason(): ReplayUnreadyReason | null {
    const { reason } = this.#breaker;
    return reason === null ? null : unreadyReasonOf(reason);
  }

  get isAvailable(): boolean {
    return this.#breaker.reason === null;
  }

  get endlessCounters(): number | undefined {
    return this.#records.endless;
  }

  use(key: string, _now: number, ttlSecs: number, charge: Charge | null): Promise<Use> {
    const ttlMs = ttlSecs * 1000;
    if (charge === null) return this.#guard(() => this.#records.record(key, ttlMs));
    return this.#guard(() => this.#records.charge(key, ttlMs, charge)).then((used) => {
      if (used instanceof ReplayStoreError) throw used;
      return used;
    });
  }

  refund(key: string, refund: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    return this.#guard(() => this.#records.refund(key, refund));
  }

  usageOf(receipt: string): Promise<Usage | null> {
    return this.#search(() => this.#records.usageOf(receipt));
  }

  prune(receipts: ReadonlySet<string>): Promise<Pruned> {
    return this.#search(() => this.#records.prune(receipts));
  }

  /** Not guarded: how long a search takes says nothing about calls. */
  async #search<T>(task: () => Promise<T>): Promise<T> {
    const { reason } = this.#breaker;
    if (reason !== null) throw refusalOf(reason);
    try {
      return await task();
    } catch (error) {
      throw new ReplayStoreError(`${this.#place} does not tell: ${reasonOf(error)}`, { cause: error });
    }
  }

  /** Sends commands, unless Redis is known to be away. @throws ReplayStoreError if it does not do what it is told */
  async #guard<T>(task: () => Promise<T>): Promise<T> {
    const { reason } = this.#breaker;
    if (reason !== null) throw refusalOf(reason);
    const isCluster = this.#connection?.isCluster === true;
    try {
      // In a cluster, failures of calls do not open the breaker: nodes fail one by one, and the others stay in use.
      return await (isCluster ? task() : this.#breaker.run(task));
    } catch (error) {
      if (isCluster) this.#noteNodeFailure(error as Error);
      throw refusalOf(error as Error);
    }
  }

  async close(): Promise<void> {
    this.#ended.abort();
    const connection = this.#connection;
    this.#connection = null;
    if (connection?.isReady === true)
      await rejectAfter(this.#timeoutMs, connection.close()).catch(() => undefined);
    connection?.destroy();
  }

  async #send(key: string, command: readonly string[]): Promise<unknown> {
    if (this.#connection === null) throw new Error('there is no connection');
    return rejectAfter(this.#timeoutMs, this.#connection.send(key, command));
  }

  /** Looks at Redis every few seconds, with jitter. While the breaker is open, its probes look instead. */
  async #watch(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const pauseMs = this.#periods.lookMs * (0.75 + Math.random() / 2);
      await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
      const connection = this.#connection;
      if (connection === null || this.#breaker.reason !== null) continue;
      await this.#look(connection, false).catch((error: unknown) => {
        // A connection that was replaced meanwhile says nothing about the new one.
        if (connection === this.#connection) this.#breaker.open(error as Error);
      });
      await this.#records.lookAtEndless();
    }
  }

  /** Until Redis has read its data from the disk, it answers INFO and refuses writes. */
  async #lookOnceLoaded(connection: RedisConnection): Promise<void> {
    const deadline = performance.now() + CONNECT_TIMEOUT_MS;
    for (;;) {
      try {
        await this.#look(connection, true);
        return;
      } catch (error) {
        if (!reasonOf(error).startsWith('LOADING') || performance.now() > deadline) throw error;
        await pause(LOADING_PAUSE_MS);
      }
    }
  }

  /**
   * Rejects if Redis may forget an invocation, or records none.
   *
   * @param isEachNeeded whether each primary must answer. Otherwise one is enough.
   */
  async #look(connection: RedisConnection, isEachNeeded: boolean): Promise<void> {
    const { evictingPolicy, isPolicyKnown, isFull } = await readMemory(connection, isEachNeeded);
    if (evictingPolicy !== null) {
      throw new RedisFault(
        'replay_store_evicts',
        `${this.#place} has the maxmemory-policy ${evictingPolicy}, expected noeviction: it may forget an invocation, which ` +
          'can then be replayed; set `maxmemory-policy noeviction` in its configuration, or use a separate Redis for this',
      );
    }
    if (!isPolicyKnown && this.#isPolicyKnown) {
      this.#options.log?.warn(
        {},
        `${this.#place} does not tell its maxmemory-policy, which could not be checked: make sure that it is noeviction, ` +
          'or invocations may be forgotten and replayed',
      );
    }
    this.#isPolicyKnown = isPolicyKnown;
    if (isFull) throw new RedisFault('replay_store_full', `${this.#place} has reached its maxmemory`);
    if (connection.isCluster) return;
    // With a write: a Redis that has become a replica, or cannot write its disk, still answers other commands.
    const name = `${this.#keyPrefix}probe`;
    await rejectAfter(
      CONNECT_TIMEOUT_MS,
      connection.send(name, ['SET', name, '1', 'PX', String(PROBE_TTL_MS)]),
    );
  }

  async #probe(): Promise<void> {
    try {
      if (this.#connection?.isReady !== true) {
        const connection = await this.#connect();
        if (this.#ended.signal.aborted) connection.destroy();
        else this.#connection = connection;
      }
      if (this.#connection === null) throw new Error('the store is closed');
      await this.#look(this.#connection, false);
    } catch (error) {
      if (unreadyReasonOf(error as Error) !== this.#loggedReason) this.#logFault(error as Error);
      // The connection may be dead without an error, or lead to a server that is no longer the primary.
      this.#connection?.destroy();
      this.#connection = null;
      throw error;
    }
  }

  async #connect(): Promise<RedisConnection> {
    let connection: RedisConnection | null = null;
    connection = await connectRedis({
      url: this.#options.url,
      onLost: (error) => {
        if (connection === null || connection !== this.#connection) return;
        if (connection.isCluster) this.#noteNodeFailure(error);
        else this.#breaker.open(error);
      },
    });
    return connection;
  }

  #logFault(error: Error): void {
    this.#loggedReason = unreadyReasonOf(error);
    this.#options.log?.error({ err: error }, `${this.#place} ${FAULTS[this.#loggedReason].log}`);
  }

  #noteNodeFailure(error: Error): void {
    const now = performance.now();
    if (now - this.#nodeLoggedAt < LOG_PAUSE_MS) return;
    this.#nodeLoggedAt = now;
    const { log, onError } = this.#options;
    log?.error({ err: error }, `${this.#place}: a node does not record; calls that belong to it are refused`);
    onError?.(error);
  }
}
