import { createHash } from 'node:crypto';
import { connectRedis, PATIENCE_MS, placeOf, reasonOf, type RedisConnection } from '../redis/connection.js';
import { within } from '../redis/within.js';
import { Breaker } from './breaker.js';
import {
  ReplayStoreError,
  type ReplayLog,
  type ReplayStore,
  type ReplayUnreadyReason,
} from './replay-store.js';

/** Options of {@link openRedisReplayStore}. */
export interface RedisReplayStoreOptions {
  /**
   * `redis://` or `rediss://` (TLS), with credentials and database as `redis` takes them. Of several, separated by
   * commas, the primary is used; of a Redis Cluster some nodes are enough.
   */
  readonly url: string;
  /** Comes before each key; default `drs:replay:`. Servers that share it refuse each other's replays. */
  readonly keyPrefix?: string;
  /** Milliseconds to wait for an answer of Redis before a call is refused; default 50. */
  readonly timeoutMs?: number;
  /** Gets a line each time that Redis goes away or comes back. A pino logger has this type. Default: no log. */
  readonly log?: ReplayLog;
  /** Called when Redis goes away, with the reason: once, not for each refused call. */
  readonly onError?: (error: Error) => void;
}

/** The default of `timeoutMs`. */
export const DEFAULT_REDIS_TIMEOUT_MS = 50;

const PROBE_TTL_MS = 1_000;
const LOG_PAUSE_MS = 10_000;
const DIGEST_BYTES = 16;

/**
 * A replay store in Redis, shared by all instances that use it: `SET key 1 NX PX ttl`. Each invocation has a key of
 * its own, so a Redis Cluster distributes them among its nodes.
 *
 * If Redis does not answer in time, the call is refused, although Redis may have recorded its invocation. After three
 * failures in a row, or if the connection is lost, every call is refused at once. Meanwhile the store tests in the
 * background whether Redis records again.
 *
 * In a cluster each node fails alone: only calls whose key belongs to a failed node are refused.
 *
 * Redis must not evict keys (`maxmemory-policy noeviction`) and must be the primary: an invocation that it forgets can
 * be replayed.
 *
 * @throws ReplayStoreError if Redis cannot be reached within 5 s or evicts keys, or the package `redis` is not
 *   installed
 * @example const replayStore = await openRedisReplayStore({ url: 'redis://127.0.0.1:6379', log: pino() });
 */
export async function openRedisReplayStore(options: RedisReplayStoreOptions): Promise<ReplayStore> {
  const store = new RedisReplayStore(options);
  await store.open();
  return store;
}

class RedisReplayStore implements ReplayStore {
  readonly #options: RedisReplayStoreOptions;
  readonly #keyPrefix: string;
  readonly #timeoutMs: number;
  readonly #place: string;
  readonly #breaker: Breaker;
  // Set by `open` and `#probe`. A lost connection to a single server is never ready again, so it is replaced.
  #connection: RedisConnection | null = null;
  #isClosed = false;
  #nodeLoggedAt = -Infinity;

  constructor(options: RedisReplayStoreOptions) {
    const { url, keyPrefix = 'drs:replay:', timeoutMs = DEFAULT_REDIS_TIMEOUT_MS, log, onError } = options;
    this.#options = options;
    this.#keyPrefix = keyPrefix;
    this.#timeoutMs = timeoutMs;
    this.#place = placeOf(url);
    this.#breaker = new Breaker({
      probe: () => this.#probe(),
      onOpen: (error) => {
        log?.error({ err: error }, `${this.#place} does not record: calls are refused until it does again`);
        onError?.(error);
      },
      onClose: (openMs) => {
        const refusedMs = Math.round(openMs);
        log?.info({ refusedMs }, `${this.#place} records again: calls are no longer refused`);
      },
    });
  }

  async open(): Promise<void> {
    let connection: RedisConnection;
    try {
      connection = await this.#connect();
    } catch (error) {
      throw new ReplayStoreError(
        `cannot connect to ${this.#place}: ${reasonOf(error)}; start it, or correct the address`,
        { cause: error },
      );
    }
    try {
      await this.#checkEviction(connection);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
  }

  get unreadyReason(): ReplayUnreadyReason | null {
    return this.#breaker.isOpen ? 'replay_store_unreachable' : null;
  }

  get isAvailable(): boolean {
    return !this.#breaker.isOpen;
  }

  async record(key: string, _now: number, ttlSecs: number): Promise<boolean> {
    const set = async () => {
      const reply = this.#set(this.#keyPrefix + digestOf(key), ttlSecs * 1000, 'NX');
      return (await within(this.#timeoutMs, reply)) === 'OK';
    };
    try {
      // No breaker for a cluster: its nodes fail one by one, and those that answer must stay in use.
      return await (this.#connection?.isCluster === true ? set() : this.#breaker.run(set));
    } catch (error) {
      if (this.#connection?.isCluster === true) this.#noteNodeFailure(error as Error);
      throw new ReplayStoreError('Redis did not record it', { cause: error });
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#breaker.close();
    const connection = this.#connection;
    this.#connection = null;
    if (connection?.isReady === true)
      await within(this.#timeoutMs, connection.close()).catch(() => undefined);
    connection?.destroy();
  }

  async #set(key: string, ttlMs: number, ...condition: 'NX'[]): Promise<unknown> {
    if (this.#connection === null) throw new Error('there is no connection');
    return this.#connection.send(key, ['SET', key, '1', 'PX', String(ttlMs), ...condition]);
  }

  /** Tests with a write: a Redis that is full, or has become a replica, still answers other commands. */
  async #probe(): Promise<void> {
    try {
      if (this.#connection?.isReady !== true) {
        const connection = await this.#connect();
        if (this.#isClosed) connection.destroy();
        else this.#connection = connection;
      }
      await within(PATIENCE_MS, this.#set(`${this.#keyPrefix}probe`, PROBE_TTL_MS));
    } catch (error) {
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

  #noteNodeFailure(error: Error): void {
    const now = performance.now();
    if (now - this.#nodeLoggedAt < LOG_PAUSE_MS) return;
    this.#nodeLoggedAt = now;
    const { log, onError } = this.#options;
    log?.error({ err: error }, `${this.#place}: a node does not record; calls that belong to it are refused`);
    onError?.(error);
  }

  /** Refuses a Redis that may forget an invocation. Asks INFO, since some providers do not allow CONFIG. */
  async #checkEviction(connection: RedisConnection): Promise<void> {
    let infos: string[];
    try {
      infos = await connection.info('memory');
    } catch (error) {
      throw new ReplayStoreError(`${this.#place} does not answer: ${reasonOf(error)}`, { cause: error });
    }
    const policies = infos.map((info) => /^maxmemory_policy:(\S+)/m.exec(info)?.[1]);
    const policy = policies.find((one) => one !== undefined && one !== 'noeviction');
    if (policy !== undefined) {
      throw new ReplayStoreError(
        `${this.#place} has the maxmemory-policy ${policy}, expected noeviction: it may forget an invocation, which can ` +
          'then be replayed; set `maxmemory-policy noeviction` in its configuration, or use a separate Redis for this',
      );
    }
    if (policies.length === 0 || policies.includes(undefined)) {
      this.#options.log?.warn(
        {},
        `${this.#place} does not tell its maxmemory-policy, which could not be checked: make sure that it is noeviction, ` +
          'or invocations may be forgotten and replayed',
      );
    }
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
