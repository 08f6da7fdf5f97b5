import { ReplayStoreError, type ReplayStore } from './replay-store.js';

/** Options of {@link openRedisReplayStore}. */
export interface RedisReplayStoreOptions {
  /** `redis://` or `rediss://` (TLS), with credentials and database as `redis` takes them. */
  readonly url: string;
  /** Comes before each key; default `drs:replay:`. Servers that share it refuse each other's replays. */
  readonly keyPrefix?: string;
  /** Milliseconds to wait for Redis, to connect or to answer, before a call is refused; default 500. */
  readonly timeoutMs?: number;
  /** Told of each lost connection; by default nobody is, and each refused call carries the reason. */
  readonly onError?: (error: Error) => void;
}

const LONGEST_RECONNECT_DELAY_MS = 500;

/**
 * A replay store in Redis, shared by all instances that use it: `SET key 1 NX PX ttl`. While Redis is away every call
 * is refused; the connection comes back by itself.
 *
 * The Redis must not evict keys (`maxmemory-policy noeviction`) and must be the primary: what it forgets can be
 * replayed.
 *
 * @throws ReplayStoreError where Redis cannot be reached within `timeoutMs`, or the package `redis` is not installed
 * @example const replayStore = await openRedisReplayStore({ url: 'redis://127.0.0.1:6379' });
 */
export async function openRedisReplayStore(options: RedisReplayStoreOptions): Promise<ReplayStore> {
  const { url, keyPrefix = 'drs:replay:', timeoutMs = 500, onError } = options;
  const { createClient } = await loadRedis();
  let isOpen = false;
  const client = createClient({
    url,
    // Without it, commands wait in a queue for Redis to come back, and calls with them.
    disableOfflineQueue: true,
    socket: {
      connectTimeout: timeoutMs,
      reconnectStrategy: (attempt) => isOpen && Math.min(20 * 2 ** attempt, LONGEST_RECONNECT_DELAY_MS),
    },
  });
  // An emitter without this listener throws.
  client.on('error', (error: Error) => onError?.(error));
  try {
    await within(timeoutMs, client.connect());
  } catch (error) {
    client.destroy();
    const { host, protocol } = new URL(url);
    const reason = (error as Error).message || (error as NodeJS.ErrnoException).code || 'no reason given';
    throw new ReplayStoreError(
      `cannot connect to Redis at ${protocol}//${host}: ${reason}; start it, or correct the address`,
      { cause: error },
    );
  }
  isOpen = true;
  return {
    record: async (key, _now, ttlSecs) => {
      const command = client.set(keyPrefix + key, '1', {
        condition: 'NX',
        expiration: { type: 'PX', value: ttlSecs * 1000 },
      });
      try {
        return (await within(timeoutMs, command)) === 'OK';
      } catch (error) {
        throw new ReplayStoreError('Redis does not answer', { cause: error });
      }
    },
    close: async () => {
      if (client.isReady) await within(timeoutMs, client.close()).catch(() => undefined);
      if (client.isOpen) client.destroy();
    },
  };
}

async function loadRedis(): Promise<typeof import('redis')> {
  try {
    return await import('redis');
  } catch (error) {
    throw new ReplayStoreError('the package "redis" is not installed; run `npm install redis`', {
      cause: error,
    });
  }
}

/** The outcome of a promise, or a rejection once the time is over. */
async function within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  // Whichever loses must not become an unhandled rejection.
  promise.catch(() => undefined);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
