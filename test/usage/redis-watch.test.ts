import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useInvocation, openRedisReplayStore, type ReplayStore, type Use } from '../../src/usage/index.js';
import { Failure } from '../../src/verify/codes.js';
import { eventually } from '../support/eventually.js';
import { startRedisCluster } from './redis-cluster.js';
import { command, RedisServer } from './redis-server.js';
import { needs } from '../support/programs.js';

const NOW = 1_800_000_000;
const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 0 };
let serial = 0;

/** What becomes of a call that was not used before: `null` if it may pass. */
const outcomeOf = async (store: ReplayStore) => {
  const invocation = { iss: 'did:key:z6Mk', sub: 'did:key:z6Mk', jti: `inv:${++serial}`, iat: NOW, args: {} };
  const used = await useInvocation(invocation, [], store, NOW, rules);
  return used instanceof Failure ? used.message : used;
};
const refused = (reason: string) => expect.stringContaining(`(${reason})`) as string;

describe('a Redis replay store that looks after its Redis', needs('redis-server'), () => {
  const lines: string[] = [];
  const stores: ReplayStore[] = [];
  const servers: RedisServer[] = [];
  const log = {
    info: (_: object, message: string) => lines.push(`info ${message}`),
    warn: (_: object, message: string) => lines.push(`warn ${message}`),
    error: (_: object, message: string) => lines.push(`error ${message}`),
  };
  const start = async (...options: string[]) => {
    const server = await RedisServer.start(...options);
    servers.push(server);
    return server;
  };
  const open = async (url: string, lookMs = 50) => {
    lines.length = 0;
    const store = await openRedisReplayStore({ url, timeoutMs: 20_000, log }, { lookMs });
    stores.push(store);
    return store;
  };
  const becomes = (store: ReplayStore, reason: ReplayStore['unreadyReason']) =>
    eventually(() => expect(store.unreadyReason).toBe(reason));
  const set = (server: RedisServer, name: string, value: string) =>
    command(server, ['CONFIG', 'SET', name, value]);

  let redis: RedisServer;
  beforeAll(async () => {
    redis = await start();
  });
  // It would go on looking, and write what it finds to the log of the next test.
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
  });
  afterAll(async () => {
    for (const server of servers) await server.stop();
  });

  it('refuses every call while a policy that was set later may evict, and recovers by itself', async () => {
    const store = await open(redis.url);
    expect([store.unreadyReason, await outcomeOf(store)]).toEqual([null, null]);
    await set(redis, 'maxmemory-policy', 'allkeys-random');
    await becomes(store, 'replay_store_evicts');
    for (let call = 0; call < 100; call++)
      expect(await outcomeOf(store)).toEqual(refused('Redis may evict what it records'));
    await set(redis, 'maxmemory-policy', 'noeviction');
    await becomes(store, null);
    expect(await outcomeOf(store)).toBeNull();
    expect(lines).toEqual([
      expect.stringMatching(/^error Redis at .* may evict used invocations: calls are refused until/),
      expect.stringMatching(/^error Redis at .* may have lost records and counts of calls/),
      expect.stringMatching(/^info Redis at .* records again/),
    ]);
  });

  it('looks at a Redis that has come back before a call is recorded in it', async () => {
    const server = await start();
    // No look of its own falls into this test.
    const store = await open(server.url, 3_600_000);
    await server.kill();
    await becomes(store, 'replay_store_unreachable');
    await server.restart('--maxmemory-policy', 'volatile-ttl');
    await becomes(store, 'replay_store_evicts');
    expect(await outcomeOf(store)).toEqual(refused('Redis may evict what it records'));
    await set(server, 'maxmemory-policy', 'noeviction');
    await becomes(store, null);
    expect(await outcomeOf(store)).toBeNull();
    expect(lines).toEqual([
      expect.stringMatching(/^error .* does not record/),
      expect.stringMatching(/^error .* may evict/),
      expect.stringMatching(/^error .* may have lost records and counts of calls/),
      expect.stringMatching(/^info .* records again/),
    ]);
  });

  it('says that Redis is full, and that it has room again', async () => {
    const store = await open(redis.url);
    await set(redis, 'maxmemory', '1');
    await becomes(store, 'replay_store_full');
    expect(await outcomeOf(store)).toEqual(refused('Redis is full'));
    await set(redis, 'maxmemory', '0');
    await becomes(store, null);
    expect(await outcomeOf(store)).toBeNull();
    expect(lines[0]).toMatch(/^error Redis at .* is full: calls are refused/);
  });

  it('knows without a call that Redis answers nothing', async () => {
    const store = await open(redis.url);
    redis.freeze();
    try {
      await becomes(store, 'replay_store_unreachable');
    } finally {
      redis.thaw();
    }
    await becomes(store, null);
    expect(await outcomeOf(store)).toBeNull();
  });

  it('goes on where Redis does not tell, with one warning, and still sees that it is full', async () => {
    const server = await start('--rename-command', 'INFO', '', '--maxmemory-policy', 'allkeys-lru');
    const store = await open(server.url);
    expect(await outcomeOf(store)).toBeNull();
    await set(server, 'maxmemory-policy', 'noeviction');
    await set(server, 'maxmemory', '1');
    await becomes(store, 'replay_store_full');
    await set(server, 'maxmemory', '0');
    await becomes(store, null);
    expect(lines.filter((line) => line.startsWith('warn'))).toEqual([
      expect.stringContaining('does not tell its settings'),
    ]);
  });

  it('does not take a busy thread for a silent Redis', async () => {
    const store = await openRedisReplayStore({ url: redis.url, timeoutMs: 1_000 });
    stores.push(store);
    const recorded = await new Promise<Use>((resolve, reject) => {
      setImmediate(() => {
        Promise.resolve(store.use('busy', NOW, 900, null)).then(resolve, reject);
        const end = performance.now() + 1_100;
        while (performance.now() < end);
      });
    });
    expect(recorded.kind).toBe('new');
  });
});

describe('a replay store that looks after a Redis Cluster', needs('redis-server'), () => {
  it('refuses while any primary may evict or all are full, and goes on while one is away', async () => {
    const cluster = await startRedisCluster(3);
    const { nodes } = cluster;
    const last = nodes[2] as RedisServer;
    const store = await openRedisReplayStore(
      { url: (nodes[0] as RedisServer).url, timeoutMs: 20_000 },
      { lookMs: 50 },
    );
    const becomes = (reason: ReplayStore['unreadyReason']) =>
      eventually(() => expect(store.unreadyReason).toBe(reason));
    try {
      await command(last, ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random']);
      await becomes('replay_store_evicts');
      for (let call = 0; call < 30; call++)
        expect(await outcomeOf(store)).toEqual(refused('Redis may evict what it records'));
      await command(last, ['CONFIG', 'SET', 'maxmemory-policy', 'noeviction']);
      await becomes(null);
      expect(await outcomeOf(store)).toBeNull();

      for (const node of nodes) await command(node, ['CONFIG', 'SET', 'maxmemory', '1']);
      await becomes('replay_store_full');
      for (const node of nodes) await command(node, ['CONFIG', 'SET', 'maxmemory', '0']);
      await becomes(null);

      await last.kill();
      let passed = 0;
      for (let call = 0; call < 60; call++) if ((await outcomeOf(store)) === null) passed++;
      expect(passed).toBeGreaterThan(0);
      expect(passed).toBeLessThan(60);
      // Calls whose names belong to the other two nodes still pass.
      expect(store.unreadyReason).toBeNull();
    } finally {
      await store.close();
      await cluster.stop();
    }
  }, 120_000);
});
