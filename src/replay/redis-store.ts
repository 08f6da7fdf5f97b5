import { Breaker } from './breaker.js';
import { ReplayStoreError, type ReplayLog, type ReplayStore } from './replay-store.js';
import { within } from './within.js';

/** Options of {@link openRedisReplayStore}. */
export interface RedisReplayStoreOptions {
  /** `redis://` or `rediss://` (TLS), with credentials and database as `redis` takes them. */
  readonly url: string;
  /** Comes before each key; default `drs:replay:`. Servers that share it refuse each other's replays. */
  readonly keyPrefix?: string;
  /** Milliseconds to wait for an answer of Redis before a call is refused; default 50. */
  readonly timeoutMs?: number;
  /** Gets a line each time that Redis goes away or comes back. A pino logger fits as it is. Default: nobody is told. */
  readonly log?: ReplayLog;
  /** Told when Redis goes away, with the reason: once, not for each refused call. */
  readonly onError?: (error: Error) => void;
}

/** The default of `timeoutMs`. */
export const DEFAULT_REDIS_TIMEOUT_MS = 50;

/** To connect, and for a probe of a connection that may be dead. No call waits for either. */
const PATIENCE_MS = 5_000;
const PROBE_TTL_MS = 1_000;

type Redis = typeof import('redis');
type Client = ReturnType<typeof newClient>;

/**
 * A replay store in Redis, shared by all instances that use it: `SET key 1 NX PX ttl`.
 *
 * A call that Redis does not answer in time is refused, and its invocation may have been recorded all the same. After
 * three failures in a row, or where the connection is lost, every call is refused at once until Redis records again: it
 * is asked in the background, and the store comes back by itself.
 *
 * The Redis must not evict keys (`maxmemory-policy noeviction`) and must be the primary: what it forgets can be
 * replayed.
 *
 * @throws ReplayStoreError where Redis cannot be reached within 5 s or evicts keys, or the package `redis` is not
 *   installed
 * @example const replayStore = await openRedisReplayStore({ url: 'redis://127.0.0.1:6379', log: pino() });
 */
export async function openRedisReplayStore(options: RedisReplayStoreOptions): Promise<ReplayStore> {
  const store = new RedisReplayStore(options, await loadRedis());
  await store.open();
  return store;
}

class RedisReplayStore implements ReplayStore {
  readonly #options: RedisReplayStoreOptions;
  readonly #redis: Redis;
  readonly #keyPrefix: string;
  readonly #timeoutMs: number;
  /** For messages: without credentials. */
  readonly #place: string;
  readonly #breaker: Breaker;
  // Owners: open, #probe. Never ready again once its connection is lost.
  #client: Client | null = null;
  #isClosed = false;

  constructor(options: RedisReplayStoreOptions, redis: Redis) {
    const { url, keyPrefix = 'drs:replay:', timeoutMs = DEFAULT_REDIS_TIMEOUT_MS, log, onError } = options;
    this.#options = options;
    this.#redis = redis;
    this.#keyPrefix = keyPrefix;
    this.#timeoutMs = timeoutMs;
    const { protocol, host } = new URL(url);
    this.#place = `Redis at ${protocol}//${host}`;
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
    let client: Client;
    try {
      client = await this.#connect();
    } catch (error) {
      throw new ReplayStoreError(
        `cannot connect to ${this.#place}: ${reasonOf(error)}; start it, or correct the address`,
        { cause: error },
      );
    }
    try {
      await this.#checkEviction(client);
    } catch (error) {
      client.destroy();
      throw error;
    }
    this.#client = client;
  }

  get isAvailable(): boolean {
    return !this.#breaker.isOpen;
  }

  async record(key: string, _now: number, ttlSecs: number): Promise<boolean> {
    try {
      return await this.#breaker.run(async () => {
        const reply = this.#set(this.#keyPrefix + key, ttlSecs * 1000, 'NX');
        return (await within(this.#timeoutMs, reply)) === 'OK';
      });
    } catch (error) {
      throw new ReplayStoreError('Redis did not record it', { cause: error });
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#breaker.close();
    const client = this.#client;
    this.#client = null;
    if (client?.isReady === true) await within(this.#timeoutMs, client.close()).catch(() => undefined);
    client?.destroy();
  }

  async #set(key: string, ttlMs: number, condition?: 'NX'): Promise<string | null> {
    if (this.#client === null) throw new Error('there is no connection');
    return this.#client.set(key, '1', {
      ...(condition ? { condition } : {}),
      expiration: { type: 'PX', value: ttlMs },
    });
  }

  /** A write, since a Redis that is full, or was made a replica, still answers everything else. */
  async #probe(): Promise<void> {
    try {
      if (this.#client?.isReady !== true) {
        const client = await this.#connect();
        if (this.#isClosed) client.destroy();
        else this.#client = client;
      }
      await within(PATIENCE_MS, this.#set(`${this.#keyPrefix}probe`, PROBE_TTL_MS));
    } catch (error) {
      // It may be dead without anybody having told, or lead to a server that is no longer the primary.
      this.#client?.destroy();
      this.#client = null;
      throw error;
    }
  }

  async #connect(): Promise<Client> {
    const client = newClient(this.#redis, this.#options.url);
    // An emitter without this listener throws. While it connects, the promise tells.
    client.on('error', (error: Error) => {
      if (client === this.#client) this.#breaker.open(error);
    });
    try {
      await within(PATIENCE_MS, client.connect());
      return client;
    } catch (error) {
      client.destroy();
      throw error;
    }
  }

  /** Refuses a Redis that may forget an invocation. INFO says it too where a provider has taken CONFIG away. */
  async #checkEviction(client: Client): Promise<void> {
    let policy: string | undefined;
    try {
      const info = await within(PATIENCE_MS, client.info('memory'));
      policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    } catch (error) {
      if (!(error instanceof this.#redis.ErrorReply)) {
        throw new ReplayStoreError(`${this.#place} does not answer: ${reasonOf(error)}`, { cause: error });
      }
    }
    if (policy === undefined) {
      this.#options.log?.warn(
        {},
        `${this.#place} does not tell its maxmemory-policy, which could not be checked: make sure that it is noeviction, ` +
          'or invocations may be forgotten and replayed',
      );
    } else if (policy !== 'noeviction') {
      throw new ReplayStoreError(
        `${this.#place} has the maxmemory-policy ${policy}, expected noeviction: it may forget an invocation, which can ` +
          'then be replayed; set `maxmemory-policy noeviction` in its configuration, or use a Redis of its own',
      );
    }
  }
}

async function loadRedis(): Promise<Redis> {
  try {
    return await import('redis');
  } catch (error) {
    throw new ReplayStoreError('the package "redis" is not installed; run `npm install redis`', {
      cause: error,
    });
  }
}

function newClient(redis: Redis, url: string) {
  return redis.createClient({
    url,
    // Without it, commands wait in a queue for Redis to come back, and calls with them.
    disableOfflineQueue: true,
    // The probe reconnects.
    socket: { connectTimeout: PATIENCE_MS, reconnectStrategy: false },
  });
}

function reasonOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  return message || code || 'no reason given';
}
