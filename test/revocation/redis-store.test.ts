import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RedisStore } from '../../src/revocation/store/redis-store.js';
import { startRedisCluster } from '../usage/redis-cluster.js';
import { command, RedisServer } from '../usage/redis-server.js';
import { startCuttableProxy } from '../support/cuttable-proxy.js';
import { eventually } from '../support/eventually.js';
import { digest, entryOf } from './entries.js';
import { needs } from '../support/programs.js';

const MAX_ENTRIES = 2_000;
const KEY = 'did:key:z1';
const ENTRIES = '{drs:revocations}:entries';

describe('the revocation store in Redis', needs('redis-server'), () => {
  let redis: RedisServer;
  const stores: RedisStore[] = [];
  let lines: string[] = [];
  let propagated: number[] = [];
  const log = {
    info: (_: object, message: string) => lines.push(`info ${message}`),
    warn: (_: object, message: string) => lines.push(`warn ${message}`),
    error: (_: object, message: string) => lines.push(`error ${message}`),
  };
  const observer = {
    revocationPropagated: (ms: number) => propagated.push(ms),
  };
  const deps = { log, observer, maxEntries: MAX_ENTRIES, now: Date.now };
  const open = async (url = redis.url, minReplicas = 0) => {
    const store = await RedisStore.open({ url, minReplicas }, deps);
    stores.push(store);
    return store;
  };

  beforeAll(async () => {
    // By default, a primary waits five seconds for further replicas before it sends its data to one.
    redis = await RedisServer.start('--appendonly', 'yes', '--repl-diskless-sync-delay', '0');
  });
  beforeEach(async () => {
    for (const store of stores.splice(0)) await store.close();
    await command(redis, ['FLUSHALL']);
    lines = [];
    propagated = [];
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    await redis.stop();
  });

  it('acknowledges a revocation once it is in force on every instance', async () => {
    const three = [await open(), await open(), await open()] as const;
    for (let index = 0; index < 30; index++) {
      const from = three[index % 3] as RedisStore;
      await eventually(() => from.record(entryOf(index)));
      // No wait here: an acknowledgement means that the revocation is in force everywhere.
      expect(three.map((store) => store.entries.has(index) || !store.isCurrent)).toEqual([true, true, true]);
    }
    expect(propagated.length).toBeGreaterThan(0);
    expect(three[0].copyAgeSecs).toBeLessThan(60);
    const later = await open();
    expect([later.entries.size, later.entries.has(29), later.entries.has(30)]).toEqual([30, true, false]);
  });

  it('takes the largest index, and one twice', async () => {
    const store = await open();
    await store.record(entryOf(Number.MAX_SAFE_INTEGER));
    await Promise.all([store.record(entryOf(7)), store.record(entryOf(7))]);
    const later = await open();
    expect([later.entries.size, later.entries.has(Number.MAX_SAFE_INTEGER)]).toEqual([2, true]);
  });

  it.each([
    ['e', '{"status_list_index":9007199254740993}'],
    ['i', '7'],
    ['e', '{"did":"did:key:z1","until":7}'],
  ])(
    'does not start with an entry that it does not know, %s %s, and is no longer current',
    async (field, text) => {
      const store = await open();
      await store.record(entryOf(1));
      await command(redis, ['XADD', ENTRIES, '*', field, text]);
      await eventually(() => expect(store.isCurrent).toBe(false));
      expect(store.entries.has(1)).toBe(true);
      await expect(open()).rejects.toMatchObject({
        fault: 'unreadable',
        message: expect.stringContaining(
          'is none that this version knows, and nothing may be skipped',
        ) as string,
      });
    },
  );

  it('acknowledges a receipt and a key once they are in force on every instance', async () => {
    const [one, two] = [await open(), await open()];
    await one.record(entryOf(1, { at: 1, reason: 'lost' }));
    const entries = [entryOf(KEY, { at: 2 }), entryOf(digest('a'), { reason: 'x', exp: 1_900_000_000 })];
    for (const [at, entry] of entries.entries()) {
      await eventually(() => [one, two][at]?.record(entry));
      expect([one, two].map((store) => store.entries.has(entry.target) || !store.isCurrent)).toEqual([
        true,
        true,
      ]);
    }
    await eventually(() => two.record(entryOf(2)));
    const later = await open();
    for (const store of [one, two, later])
      expect([...store.entries.values()]).toEqual([
        entryOf(1, { at: 1, reason: 'lost' }),
        ...entries,
        entryOf(2),
      ]);
  });

  it('removes what has run out, but the last, when it starts, and takes no more than it may', async () => {
    const store = await open();
    const exp = Math.floor(Date.now() / 1000) - 3 * 86_400;
    for (const digit of 'abc') await store.record(entryOf(digest(digit), { exp }));
    await store.record(entryOf(digest('d'), { exp: exp + 2 * 86_400 }));
    await store.record(entryOf(digest('e'), { exp }));
    expect([...(await open()).entries.values()]).toHaveLength(1);
    expect(await command(redis, ['XLEN', ENTRIES])).toBe(2);
    expect([...(await open()).entries.values()]).toHaveLength(1);
    const full = await RedisStore.open({ url: redis.url, minReplicas: 0 }, { ...deps, maxEntries: 1 });
    stores.push(full);
    await expect(full.record(entryOf(1))).rejects.toMatchObject({ fault: 'full' });
    await full.record(entryOf(digest('d')));
    expect(full.entries.size).toBe(1);
  });

  it('ends nothing by its own clock alone, which may be days ahead', async () => {
    const store = await open();
    const exp = Math.floor(Date.now() / 1000) + 3_600;
    for (const digit of 'ab') await store.record(entryOf(digest(digit), { exp }));
    const now = () => Date.now() + 5 * 86_400_000;
    const ahead = await RedisStore.open({ url: redis.url, minReplicas: 0 }, { ...deps, now });
    stores.push(ahead);
    await ahead.record(entryOf(1));
    for (const one of [ahead, await open()])
      expect([...one.entries.values()].map(({ target }) => target)).toEqual([digest('a'), digest('b'), 1]);
  });

  it('goes on with its copy while Redis is away, is not current, and cannot revoke', async () => {
    const store = await open();
    await store.record(entryOf(1));
    await redis.kill();
    await eventually(() => expect(store.isCurrent).toBe(false));
    expect(store.entries.has(1)).toBe(true);
    await expect(store.record(entryOf(2))).rejects.toMatchObject({ fault: 'not_recorded' });
    expect(store.entries.has(2)).toBe(false);
    expect(lines).toEqual([expect.stringMatching(/^error Redis at .* cannot be used: verification goes on/)]);
    await redis.restart();
    await eventually(() => expect(store.isCurrent).toBe(true));
    expect(lines.slice(1)).toEqual([expect.stringMatching(/^info Redis at .* is back/)]);
    expect(store.entries.has(1)).toBe(true);
  });

  it('knows by its own clock that it was cut off, and has read everything before it is current again', async () => {
    const proxy = await startCuttableProxy(Number(new URL(redis.url).port));
    const near = await open();
    const far = await open(`redis://127.0.0.1:${proxy.port}`);
    proxy.cut();
    // It is acknowledged only when the lease of the other instance is over, so never while that instance is current.
    await near.record(entryOf(5));
    expect([far.isCurrent, far.entries.has(5)]).toEqual([false, false]);
    proxy.heal();
    await eventually(() => expect(far.isCurrent).toBe(true));
    expect(far.entries.has(5)).toBe(true);
    await far.close();
    proxy.stop();
  });

  it('records anew what a server does not have that took the place of the first', async () => {
    const other = await RedisServer.start('--appendonly', 'yes');
    const proxy = await startCuttableProxy(Number(new URL(redis.url).port));
    const url = `redis://127.0.0.1:${proxy.port}`;
    const [one, two] = [await open(url), await open(url)];
    for (let index = 0; index < 1100; index++) void one.record(entryOf(index)).catch(() => undefined);
    await one.record(entryOf(5000));
    await one.record(entryOf(KEY));
    await command(other, ['XADD', ENTRIES, '*', 'e', '{"status_list_index":77777}']);
    proxy.lead(Number(new URL(other.url).port));
    await eventually(() => expect(lines.filter((line) => line.includes('is back'))).toHaveLength(2));
    for (const store of [one, two])
      expect([store.entries.size, store.entries.has(77_777)]).toEqual([1103, true]);
    const fresh = await open(other.url);
    expect(fresh.entries.size).toBe(1103);
    expect([5000, 77_777, KEY].map((target) => fresh.entries.has(target))).toEqual([true, true, true]);
    for (const store of [one, two, fresh]) await store.close();
    proxy.stop();
    await other.stop();
  });

  it('reads everything again where it failed while it recorded anew what a server does not have', async () => {
    const other = await RedisServer.start('--appendonly', 'yes');
    const proxy = await startCuttableProxy(Number(new URL(redis.url).port));
    const store = await open(`redis://127.0.0.1:${proxy.port}`);
    await store.record(entryOf(1));
    await command(other, ['XADD', ENTRIES, '*', 'e', '{"status_list_index":2}']);
    await command(other, ['ACL', 'SETUSER', 'default', '-xadd']);
    proxy.lead(Number(new URL(other.url).port));
    // Several times it reads what the other one has, and cannot add what that one lacks.
    await eventually(async () =>
      expect(await command(other, ['INFO', 'commandstats'])).toMatch(/cmdstat_xadd:.*rejected_calls=[3-9]/),
    );
    expect(store.isCurrent).toBe(false);
    await command(other, ['ACL', 'SETUSER', 'default', '+xadd']);
    await eventually(() => expect(store.isCurrent).toBe(true));
    expect([1, 2].map((index) => store.entries.has(index))).toEqual([true, true]);
    expect((await open(other.url)).entries.has(1)).toBe(true);
    await store.close();
    proxy.stop();
    await other.stop();
  });

  it('confirms nothing that its replicas do not have', async () => {
    const store = await RedisStore.open({ url: redis.url, minReplicas: 1, lookMs: 50 }, deps);
    stores.push(store);
    expect(store.missingReplicas).toBe(1);
    await expect(store.record(entryOf(1))).rejects.toMatchObject({
      fault: 'unconfirmed',
      message: expect.stringContaining('0 replicas have it, expected 1') as string,
    });
    const replica = await RedisServer.start('--replicaof', '127.0.0.1', new URL(redis.url).port);
    await eventually(async () => {
      await store.record(entryOf(1));
      expect(await command(replica, ['XLEN', ENTRIES])).toBeGreaterThan(0);
    });
    await eventually(() => expect(store.missingReplicas).toBe(0));
    await replica.stop();
  });

  it('does not take a replica, nor one of two primaries', async () => {
    const other = await RedisServer.start(
      '--appendonly',
      'yes',
      '--replicaof',
      '127.0.0.1',
      new URL(redis.url).port,
    );
    await expect(open(other.url)).rejects.toThrow(
      '0 of its servers say that they are the primary, expected one',
    );
    const both = `${other.url},${redis.url}`;
    const store = await open(both);
    await command(other, ['REPLICAOF', 'NO', 'ONE']);
    await expect(open(both)).rejects.toThrow('2 of its servers say that they are the primary, expected one');
    // What is connected stays where it is.
    await store.record(entryOf(3));
    await store.close();
    await other.stop();
  });

  it.each([
    [
      ['--maxmemory-policy', 'allkeys-lru', '--appendonly', 'yes'],
      'has the maxmemory-policy allkeys-lru, expected noeviction',
    ],
    [['--appendonly', 'no'], 'would forget them when it restarts; set `appendonly yes`'],
  ])('refuses a Redis that forgets: %j', async (options, message) => {
    const other = await RedisServer.start(...options);
    await expect(open(other.url)).rejects.toThrow(message);
    await expect(open(other.url)).rejects.toMatchObject({ fault: 'unreadable' });
    await other.stop();
  });

  it.each([
    ['maxmemory-policy', 'allkeys-random', 'noeviction'],
    ['appendonly', 'no', 'yes'],
  ])(
    'is not current while Redis forgets since a later change of its %s, and keeps its copy',
    async (name, bad, good) => {
      const store = await RedisStore.open({ url: redis.url, minReplicas: 0, lookMs: 50 }, deps);
      stores.push(store);
      await store.record(entryOf(1));
      await command(redis, ['CONFIG', 'SET', name, bad]);
      try {
        await eventually(() => expect(store.isCurrent).toBe(false));
        await expect(store.record(entryOf(2))).rejects.toMatchObject({ fault: 'not_recorded' });
        expect(store.entries.has(1)).toBe(true);
        // What such a Redis does.
        await command(redis, ['DEL', ENTRIES]);
      } finally {
        await command(redis, ['CONFIG', 'SET', name, good]);
      }
      await eventually(() => expect(store.isCurrent).toBe(true));
      const later = await open();
      expect(later.entries.has(1)).toBe(true);
      expect(lines).toEqual([
        expect.stringMatching(/^error Redis at .* cannot be used: verification goes on/),
        expect.stringMatching(/^warn Redis at .* lacked revocations that were read before/),
        expect.stringMatching(/^info Redis at .* is back/),
      ]);
    },
  );

  it('works on a Redis Cluster', async () => {
    const cluster = await startRedisCluster(3);
    for (const node of cluster.nodes) await command(node, ['CONFIG', 'SET', 'appendonly', 'yes']);
    const [one, two] = [await open(cluster.nodes[0]?.url), await open(cluster.nodes[1]?.url)];
    await one.record(entryOf(1));
    await two.record(entryOf(2));
    expect([one.entries.has(2), two.entries.has(1)]).toEqual([true, true]);
    await one.close();
    await two.close();
    await cluster.stop();
  }, 120_000);
});
