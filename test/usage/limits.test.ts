import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createMemoryReplayStore,
  openRedisReplayStore,
  ReplayStoreError,
  type ReplayStore,
} from '../../src/usage/index.js';
import type { CountedLimits } from '../../src/verify/limits.js';
import { call, chargeOf, limitOf, NOW } from './limits.js';
import { command, startRedisCluster, type RedisCluster } from './redis-cluster.js';
import { hasRedis, RedisServer } from './redis-server.js';

const MAX = Number.MAX_SAFE_INTEGER;
const kinds: readonly ('memory' | 'redis' | 'cluster')[] = hasRedis
  ? ['memory', 'redis', 'cluster']
  : ['memory'];
let redis: RedisServer;
let cluster: RedisCluster;
const stores: ReplayStore[] = [];
const urlOf = (kind: 'redis' | 'cluster') => (kind === 'redis' ? redis.url : (cluster.nodes[0]?.url ?? ''));
async function open(kind: (typeof kinds)[number], periods = {}): Promise<ReplayStore> {
  const store =
    kind === 'memory'
      ? createMemoryReplayStore()
      : await openRedisReplayStore({ url: urlOf(kind), timeoutMs: 20_000 }, periods);
  stores.push(store);
  return store;
}

beforeAll(async () => {
  if (!hasRedis) return;
  [redis, cluster] = await Promise.all([RedisServer.start(), startRedisCluster(2)]);
}, 120_000);
afterAll(async () => {
  for (const store of stores) await store.close();
  if (!hasRedis) return;
  await redis.stop();
  await cluster.stop();
});

describe.each(kinds)('limits that are counted in %s', (kind) => {
  // Most tests need no records of older versions.
  let store: ReplayStore;
  beforeAll(async () => {
    store = await open(kind, { rollMs: -Infinity });
  });

  it('let as many calls pass as they say, of many at the same time', async () => {
    const limits = [limitOf(`${kind} many`, { maxCalls: 7 })];
    const uses = await Promise.all(Array.from({ length: 20 }, () => call(store, limits)));
    expect(uses.filter(({ kind }) => kind === 'new')).toHaveLength(7);
    expect(uses.find(({ kind }) => kind === 'reached')).toEqual({
      kind: 'reached',
      limit: { level: 0, member: 'max_calls', limit: 7, used: 7, asked: 1, exp: limits[0]?.exp },
    });
  });

  it('charge all levels or none, and no replay', async () => {
    const [root, leaf] = [
      limitOf(`${kind} root`, { maxCalls: 5, maxTotalMicroUsd: 100 }),
      limitOf(`${kind} leaf`, { level: 2, maxCalls: 2 }),
    ];
    const once = () => store.use(`${kind} once`, NOW, 961, chargeOf([root, leaf], 30));
    expect(await once()).toEqual({
      kind: 'new',
      usage: [
        { calls: 1, microUsd: 30 },
        { calls: 1, microUsd: 0 },
      ],
    });
    expect(await once()).toEqual({ kind: 'replayed' });
    expect(await call(store, [root, leaf], 30)).toMatchObject({ kind: 'new' });
    expect(await call(store, [root, leaf], 30)).toMatchObject({ limit: { level: 2, member: 'max_calls' } });
    // A sibling of the leaf still has what the root has left.
    const sibling = limitOf(`${kind} sibling`, { level: 1, maxCalls: 9 });
    expect(await call(store, [root, sibling], 41)).toEqual({
      kind: 'reached',
      limit: {
        ...{ level: 0, member: 'max_total_cost_usd', limit: 100, used: 60, asked: 41, exp: root.exp },
      },
    });
    expect(await call(store, [root, sibling], 40)).toEqual({
      kind: 'new',
      usage: [
        { calls: 3, microUsd: 100 },
        { calls: 1, microUsd: 0 },
      ],
    });
    expect(await store.usageOf(root.receipt)).toEqual({ calls: 3, microUsd: 100 });
    // Its counter is in the keeping of the root's.
    expect(await store.usageOf(sibling.receipt)).toEqual({ calls: 1, microUsd: 0 });
    expect(await store.usageOf(limitOf('nobody').receipt)).toBeNull();
  });

  it('do not use up the invocation of a call that they refuse', async () => {
    const tight = limitOf(`${kind} tight`, { maxTotalMicroUsd: 5 });
    const dear = () => store.use(`${kind} dear`, NOW, 961, chargeOf([tight], 6));
    expect(await dear()).toMatchObject({ kind: 'reached' });
    expect(await dear()).toMatchObject({ kind: 'reached' });
  });

  it.each([
    [0, 0, 'reached'],
    [1, 0, 'new'],
    [MAX, MAX, 'new'],
  ])('of %d calls', async (maxCalls, _, outcome) => {
    const limit = limitOf(`${kind} ${maxCalls} calls`, { maxCalls, exp: null });
    expect((await call(store, [limit])).kind).toBe(outcome);
  });

  it.each([
    [0, 0, 'new'],
    [0, 1, 'reached'],
    [1e15, 1e15, 'new'],
    [1e15, MAX, 'reached'],
  ])('of %d micro-dollars, for a call of %d', async (maxTotalMicroUsd, cost, outcome) => {
    const limit = limitOf(`${kind} ${maxTotalMicroUsd} for ${cost}`, { maxTotalMicroUsd });
    expect((await call(store, [limit], cost)).kind).toBe(outcome);
    const used = outcome === 'new' ? cost : 0;
    expect((await store.usageOf(limit.receipt))?.microUsd ?? 0).toBe(used);
    if (used === 1e15) expect((await call(store, [limit], 1)).kind).toBe('reached');
  });

  it('of sixteen levels', async () => {
    const levels = Array.from({ length: 16 }, (_, level) =>
      limitOf(`${kind} level ${level}`, { level, maxCalls: 20 - level, maxTotalMicroUsd: 1000 }),
    );
    for (let calls = 0; calls < 5; calls++) expect((await call(store, levels, 3)).kind).toBe('new');
    expect(await call(store, levels, 3)).toMatchObject({ limit: { level: 15, used: 5 } });
    for (const { receipt } of levels)
      expect(await store.usageOf(receipt)).toEqual({ calls: 5, microUsd: 15 });
  });

  it('end after any time that a receipt may have', async () => {
    for (const exp of [NOW + 1, 1e11, 1e12, MAX]) {
      const limit = limitOf(`${kind} ends ${exp}`, { maxCalls: 1, exp });
      expect((await call(store, [limit])).kind).toBe('new');
      expect((await call(store, [limit])).kind).toBe('reached');
    }
  });
});

describe.each(kinds)('refunds of what is counted in %s', (kind) => {
  let store: ReplayStore;
  const back = (key: string, limits: readonly CountedLimits[], microUsd: number | null = null, now = NOW) =>
    store.refund?.(
      key,
      limits.map(({ receipt }) => receipt),
      now,
      microUsd,
    );
  const usages = (limits: readonly CountedLimits[]) =>
    Promise.all(limits.map(({ receipt }) => store.usageOf(receipt)));
  /** Two levels, of which only the root limits the cost. */
  const chainOf = (name: string) => [
    limitOf(`${kind} ${name} root`, { maxCalls: 2, maxTotalMicroUsd: 1e15 }),
    limitOf(`${kind} ${name} leaf`, { level: 1, maxCalls: 2 }),
  ];
  beforeAll(async () => {
    store = await open(kind, { rollMs: -Infinity });
  });

  it('give back the call and its cost on all levels, once, and never the invocation', async () => {
    const limits = chainOf('whole');
    const use = (key: string) => store.use(key, NOW, 961, chargeOf(limits, 5e14 + 1));
    await use(`${kind} whole 1`);
    expect(await back(`${kind} whole 1`, limits)).toEqual({
      ...{ kind: 'refunded', calls: 1, microUsd: 5e14 + 1 },
    });
    expect(await usages(limits)).toEqual([
      { calls: 0, microUsd: 0 },
      { calls: 0, microUsd: 0 },
    ]);
    expect(await use(`${kind} whole 1`)).toEqual({ kind: 'replayed' });
    await use(`${kind} whole 2`);
    expect(await back(`${kind} whole 1`, limits)).toEqual({ kind: 'again' });
    expect(await back(`${kind} whole 1`, limits, 0)).toEqual({ kind: 'again' });
    expect(await usages(limits)).toEqual([
      { calls: 1, microUsd: 5e14 + 1 },
      { calls: 1, microUsd: 0 },
    ]);
  });

  it('of a part of the cost keep the call, and are at most what was charged', async () => {
    const limits = chainOf('part');
    await store.use(`${kind} part`, NOW, 961, chargeOf(limits, 100));
    await call(store, limits, 7);
    expect(await back(`${kind} part`, limits, 101)).toEqual({ kind: 'above', chargedMicroUsd: 100 });
    expect(await back(`${kind} part`, limits, 100)).toEqual({ kind: 'refunded', calls: 0, microUsd: 100 });
    expect(await back(`${kind} part`, limits)).toEqual({ kind: 'again' });
    expect(await usages(limits)).toEqual([
      { calls: 2, microUsd: 7 },
      { calls: 2, microUsd: 0 },
    ]);
  });

  it('give back no cost that nobody limits', async () => {
    const limits = [limitOf(`${kind} no cost`, { maxCalls: 2 })];
    await store.use(`${kind} no cost`, NOW, 961, chargeOf(limits, MAX));
    expect(await back(`${kind} no cost`, limits, 1)).toEqual({ kind: 'above', chargedMicroUsd: 0 });
    expect(await back(`${kind} no cost`, limits)).toEqual({ kind: 'refunded', calls: 1, microUsd: 0 });
  });

  it('happen once, of many at the same time', async () => {
    const limits = chainOf('race');
    const other = await open(kind, { rollMs: -Infinity });
    // In memory, a store of its own knows nothing of the call.
    const both = kind === 'memory' ? [store] : [store, other];
    await store.use(`${kind} race`, NOW, 961, chargeOf(limits, 3));
    await call(store, limits, 4);
    const receipts = limits.map(({ receipt }) => receipt);
    const refunds = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        (both[at % both.length] as Required<ReplayStore>).refund(
          `${kind} race`,
          receipts,
          NOW,
          at % 3 === 0 ? 3 : null,
        ),
      ),
    );
    expect(refunds.filter((refund) => refund.kind === 'refunded')).toHaveLength(1);
    expect(refunds.filter((refund) => refund.kind === 'again')).toHaveLength(19);
    expect((await store.usageOf(receipts[0] ?? ''))?.microUsd).toBe(4);
  });

  it('know no call that was not charged', async () => {
    const limits = chainOf('unknown');
    await store.use(`${kind} free`, NOW, 961, null);
    await call(store, limits);
    for (const key of [`${kind} free`, `${kind} nobody`])
      expect(await back(key, limits)).toEqual({ kind: 'unknown' });
    expect((await usages(limits))[0]?.calls).toBe(1);
  });
});

it('a refund in memory comes at most 60 s after its call', async () => {
  const store = await open('memory');
  const limits = [limitOf('late', { maxCalls: 9 })];
  await store.use('late', NOW, 961, chargeOf(limits));
  const at = (now: number) => store.refund?.('late', [limits[0]?.receipt ?? ''], now, null);
  expect(await at(NOW + 61)).toEqual({ kind: 'late' });
  expect(await at(NOW - 61)).toEqual({ kind: 'late' });
  expect(await at(NOW + 60)).toMatchObject({ kind: 'refunded' });
});

describe('limits that are counted in memory', () => {
  it('refuse calls under new receipts when there is no place, and forget no counter before its end', async () => {
    const store = createMemoryReplayStore({ maxEntries: 40 });
    const at = (index: number) => limitOf(`place ${index}`, { maxCalls: 2 });
    for (let index = 0; index < 10; index++) expect((await call(store, [at(index)])).kind).toBe('new');
    expect(store.counters).toBe(10);
    await expect(call(store, [at(3), at(10)])).rejects.toThrow('it is full: 10 limited receipts are counted');
    expect((await call(store, [at(3)])).kind).toBe('new');
    expect((await call(store, [at(3)])).kind).toBe('reached');
    expect((await store.use('free', NOW, 961, null)).kind).toBe('new');
    // An hour after the end there is room again.
    const end = NOW + 2 * 3_600;
    await expect(call(store, [{ ...at(11), exp: null }], 0, end - 1)).rejects.toThrow(ReplayStoreError);
    expect((await call(store, [{ ...at(11), exp: null }], 0, end)).kind).toBe('new');
    expect(store.counters).toBeLessThan(10);
  });

  it('refuse receipts whose counters may be forgotten, where the clock goes back', async () => {
    const store = createMemoryReplayStore({ maxEntries: 4 });
    const limit = limitOf('gone', { maxCalls: 1 });
    expect((await call(store, [limit])).kind).toBe('new');
    expect((await call(store, [limitOf('next', { maxCalls: 1, exp: null })], 0, NOW + 9_999)).kind).toBe(
      'new',
    );
    await store.close();
    await expect(call(store, [limit])).rejects.toThrow('the clock has gone back');
  });
});

describe.skipIf(!hasRedis)('limits that are counted in Redis', () => {
  const keys = async (pattern: string) => (await command(redis, ['KEYS', pattern])) as string[];

  it('end with their receipts and an hour, and never earlier for a verifier with less tolerance', async () => {
    const store = await open('redis');
    const limit = limitOf('tolerant', { maxCalls: 9 });
    const ttl = async () => {
      const [name = ''] = await keys(`*#${limit.receipt.slice(7)}`);
      return Math.round(
        Number(await command(redis, ['PTTL', name])) / 1000 - ((limit.exp ?? 0) - Date.now() / 1000),
      );
    };
    await store.use('tolerant 1', NOW, 961, chargeOf([limit], 0, 0));
    expect(await ttl()).toBeCloseTo(3_600, -1);
    await store.use('tolerant 2', NOW, 961, chargeOf([limit], 0, 500));
    expect(await ttl()).toBeCloseTo(4_100, -1);
    await store.use('tolerant 3', NOW, 961, chargeOf([limit], 0, 0));
    expect(await ttl()).toBeCloseTo(4_100, -1);
    const forever = limitOf('forever', { maxCalls: 9, exp: null });
    await call(store, [forever]);
    const [name = ''] = await keys(`*#${forever.receipt.slice(7)}`);
    expect(await command(redis, ['PTTL', name])).toBe(-1);
  });

  it('give back at most 60 s after the call, only what is left, and make no counter anew', async () => {
    const store = await open('redis', { rollMs: -Infinity });
    const limits = [limitOf('old', { maxCalls: 9 }), limitOf('old leaf', { level: 1, maxTotalMicroUsd: 9 })];
    const receipts = limits.map(({ receipt }) => receipt);
    const [counter = '', leaf = ''] = receipts.map((receipt) => `#${receipt.slice(7)}`);
    await store.use('old', NOW, 961, chargeOf(limits, 4));
    const names = await keys(`${(await keys(`*${counter}`))[0]?.split('#')[0]}*`);
    const record = names.find((name) => !name.includes('#')) ?? '';
    const value = String(await command(redis, ['GET', record]));
    expect(value).toMatch(/^c\d{10}:4$/);
    const secs = Number(value.slice(1, 11));
    const refund = async (text: string) => {
      await command(redis, ['SET', record, text, 'KEEPTTL']);
      return store.refund?.('old', receipts, NOW, null);
    };
    expect(await refund(`c${secs - 62}:4`)).toEqual({ kind: 'late' });
    expect(await refund(`c${secs + 62}:4`)).toEqual({ kind: 'late' });
    // An older version, or anybody else.
    for (const other of ['1', '', `c${secs}`, `c${secs}:-4`])
      expect(await refund(other)).toEqual({ kind: 'unknown' });
    const [leafName = ''] = await keys(`*${leaf}`);
    await command(redis, ['RENAME', leafName, 'kept']);
    await command(redis, ['SET', leafName, 'text']);
    await expect(refund(`c${secs}:4`)).rejects.toThrow('something else');
    expect(await store.usageOf(receipts[0] ?? '')).toEqual({ calls: 1, microUsd: 0 });
    await command(redis, ['DEL', leafName]);
    expect(await refund(`c${secs}:4`)).toMatchObject({ kind: 'refunded' });
    expect(await command(redis, ['EXISTS', leafName])).toBe(0);
    expect(await command(redis, ['GET', record])).toBe(`r${secs}:4`);
    expect(Number(await command(redis, ['PTTL', record]))).toBeGreaterThan(900_000);
    // Once more, of counters that have nothing.
    await command(redis, ['RENAME', 'kept', leafName]);
    await command(redis, ['HSET', leafName, 'micro_usd', '3']);
    expect(await refund(`c${secs}:4`)).toMatchObject({ kind: 'refunded' });
    expect(await command(redis, ['HGETALL', leafName])).toEqual({ calls: '0', micro_usd: '0' });
    expect(await store.usageOf(receipts[0] ?? '')).toEqual({ calls: 0, microUsd: 0 });
  });

  it('refuse where Redis has something else under a name, or another time', async () => {
    const store = await open('redis');
    const foreign = limitOf('foreign', { maxCalls: 9 });
    await call(store, [foreign]);
    const [name = ''] = await keys(`*#${foreign.receipt.slice(7)}`);
    for (const found of [
      ['SET', name, 'x'],
      ['HSET', name, 'calls', 'many'],
    ]) {
      await command(redis, ['DEL', name]);
      await command(redis, found);
      for (let at = 0; at < 5; at++)
        await expect(call(store, [foreign])).rejects.toThrow(
          'Redis has something else under the name of a counter',
        );
    }
    const ended = limitOf('ended', { maxCalls: 9, exp: NOW - 3_700 });
    await expect(call(store, [ended])).rejects.toThrow('ended an hour ago by the clock of Redis');
    // This says nothing about other calls.
    expect(store.unreadyReason).toBeNull();
  });

  it('take one round trip, also where Redis has forgotten the script', async () => {
    const store = await open('redis', { rollMs: -Infinity });
    const limits = [limitOf('trip', { maxCalls: 9 })];
    await command(redis, ['SCRIPT', 'FLUSH']);
    expect((await call(store, limits)).kind).toBe('new');
    await command(redis, ['CONFIG', 'RESETSTAT']);
    expect((await call(store, limits)).kind).toBe('new');
    const stats = String(await command(redis, ['INFO', 'commandstats']));
    expect(
      [...stats.matchAll(/^cmdstat_(\w+):calls=(\d+)/gm)].map(([, name, calls]) => [name, calls]),
    ).toEqual(expect.arrayContaining([['evalsha', '1']]));
  });

  it('are kept apart by a prefix, whatever is in it', async () => {
    const store = await openRedisReplayStore({ url: redis.url, keyPrefix: 'a*[b]?:' });
    stores.push(store);
    const [first, second] = [limitOf('first', { maxCalls: 1 }), limitOf('second', { maxCalls: 1 })];
    await call(store, [first, second]);
    expect(await store.usageOf(second.receipt)).toEqual({ calls: 1, microUsd: 0 });
    expect(await (await open('redis')).usageOf(second.receipt)).toBeNull();
  });
});

describe.skipIf(!hasRedis)('an upgrade', () => {
  it.each(['redis', 'cluster'] as const)(
    'honours what the version before has recorded, and is honoured by it: %s',
    async (kind) => {
      const store = await open(kind);
      const limits = [limitOf(`roll ${kind}`, { maxCalls: 2 })];
      const use = (key: string) => store.use(key, NOW, 961, chargeOf(limits));
      // A call without limits is recorded as before.
      const before = await open(kind);
      await before.use(`${kind} old`, NOW, 961, null);
      expect(await use(`${kind} old`)).toEqual({ kind: 'replayed' });
      expect((await use(`${kind} new`)).kind).toBe('new');
      expect(await before.use(`${kind} new`, NOW, 961, null)).toEqual({ kind: 'replayed' });
      expect((await use(`${kind} newer`)).kind).toBe('new');
      // What is refused is recorded nowhere.
      expect((await use(`${kind} refused`)).kind).toBe('reached');
      expect((await use(`${kind} refused`)).kind).toBe('reached');
      expect((await before.use(`${kind} refused`, NOW, 961, null)).kind).toBe('new');
    },
  );
});
