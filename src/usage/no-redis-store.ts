import type { ReplayStore } from './usage-store.js';

// `#redis-replay-store` in package.json where there is no Node.

export type { RedisReplayStoreOptions } from './redis-store.js';

/** @throws Error always: without Node's sockets nothing reaches Redis */
export function openRedisReplayStore(): Promise<ReplayStore> {
  return Promise.reject(
    new Error(
      'openRedisReplayStore needs Node.js, Bun or Deno; implement ReplayStore over the storage of this runtime',
    ),
  );
}
