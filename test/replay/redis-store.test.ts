import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  judgeReplay,
  openRedisReplayStore,
  ReplayStoreError,
  type ReplayStore,
} from '../../src/replay/index.js';
import { hasRedis, RedisServer } from './redis-server.js';
import { eventually } from '../support/eventually.js';

const NOW = 1_800_000_000;
const rules = { windowSecs: 900, clockSkewSecs: 0 };
let serial = 0;
const fresh = () => ({ iss: 'did:key:z6Mk', jti: `inv:${++serial}`, iat: NOW });

describe.skipIf(!hasRedis)('the Redis replay store', () => {
  let redis: RedisServer;
  const open: ReplayStore[] = [];
  const openStore = async (options: { timeoutMs?: number; keyPrefix?: string } = {}) => {
    const store = await openRedisReplayStore({ url: redis.url, timeoutMs: 5000, ...options });
    open.push(store);
    return store;
  };

  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(async () => {
    for (const store of open) await store.close();
    await redis.stop();
  });

  it('sees on one instance what another recorded', async () => {
    const [one, other] = [await openStore(), await openStore()];
    const invocation = fresh();
    expect(await judgeReplay(invocation, one, NOW, rules)).toBeNull();
    expect(await judgeReplay(invocation, other, NOW, rules)).toMatchObject({ code: 'REPLAY_DETECTED' });
  });

  it('lets exactly one of many concurrent uses pass', async () => {
    const stores = [await openStore(), await openStore(), await openStore()];
    const invocation = fresh();
    const judged = await Promise.all(
      Array.from({ length: 30 }, async (_, at) =>
        judgeReplay(invocation, stores[at % 3] as ReplayStore, NOW, rules),
      ),
    );
    expect(judged.filter((failure) => failure === null)).toHaveLength(1);
  });

  it('lets Redis forget by itself', async () => {
    const { createClient } = await import('redis');
    const client = await createClient({ url: redis.url }).connect();
    const store = await openStore({ keyPrefix: 'ttl-test:' });
    await store.record('key', NOW, 961);
    const ttl = await client.pTTL('ttl-test:key');
    expect(ttl).toBeGreaterThan(900_000);
    expect(ttl).toBeLessThanOrEqual(961_000);
    await client.close();
  });

  it('refuses while Redis is frozen, after a bounded wait', async () => {
    const store = await openStore({ timeoutMs: 2000 });
    redis.freeze();
    try {
      expect(await judgeReplay(fresh(), store, NOW, rules)).toMatchObject({
        code: 'REPLAY_STORE_UNAVAILABLE',
        message: expect.stringContaining('(Redis does not answer)') as string,
      });
    } finally {
      redis.thaw();
    }
  });

  it('refuses when Redis dies, at once and before, and recovers by itself', async () => {
    // Longer than this test may take: what refuses is the lost connection, not the wait.
    const store = await openStore({ timeoutMs: 600_000 });
    redis.freeze();
    const inFlight = judgeReplay(fresh(), store, NOW, rules);
    await redis.kill();
    expect(await inFlight).toMatchObject({ code: 'REPLAY_STORE_UNAVAILABLE' });
    expect(await judgeReplay(fresh(), store, NOW, rules)).toMatchObject({ code: 'REPLAY_STORE_UNAVAILABLE' });
    await redis.restart();
    await eventually(async () => expect(await judgeReplay(fresh(), store, NOW, rules)).toBeNull());
  });

  it('is not opened where there is no Redis, and says where it looked', async () => {
    await redis.kill();
    const opening = openRedisReplayStore({ url: redis.url.replace('//', '//user:hunter2@') });
    await expect(opening).rejects.toThrow(ReplayStoreError);
    await expect(opening).rejects.toThrow(`cannot connect to Redis at ${redis.url}: `);
    await expect(opening).rejects.not.toThrow('hunter2');
    await redis.restart();
  });
});
