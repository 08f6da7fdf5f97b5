import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMemoryReplayStore, openRedisReplayStore, ReplayStoreError } from '../../src/usage/index.js';
import type { ReplayStore } from '../../src/usage/index.js';
import { FileReplayStore } from '../../src/usage/file-store.js';
import type { CountedLimits } from '../../src/verify/limits.js';
import { call, chargeOf, limitOf, NOW } from './limits.js';
import { startRedisCluster, type RedisCluster } from './redis-cluster.js';
import { command, RedisServer } from './redis-server.js';
import { needs } from '../support/programs.js';

const MAX = Number.MAX_SAFE_INTEGER;
const KINDS = ['memory', 'file', 'redis', 'cluster'] as const;
const folder = mkdtempSync(path.join(tmpdir(), 'drs-limits-'));
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const REDIS = needs('redis-server');
let redis: RedisServer;
let cluster: RedisCluster;
const stores: ReplayStore[] = [];
const urlOf = (kind: 'redis' | 'cluster') => (kind === 'redis' ? redis.url : (cluster.nodes[0]?.url ?? ''));
async function open(kind: (typeof KINDS)[number], periods = {}): Promise<ReplayStore> {
  const store =
    kind === 'memory'
      ? createMemoryReplayStore()
      : kind === 'file'
        ? await FileReplayStore.open(folder, { maxEntries: 1e6, log })
        : await openRedisReplayStore({ url: urlOf(kind), timeoutMs: 20_000 }, periods);
  stores.push(store);
  return store;
}

beforeAll(async () => {
  if (REDIS.skip) return;
  [redis, cluster] = await Promise.all([RedisServer.start(), startRedisCluster(2)]);
}, 120_000);
afterAll(async () => {
  for (const store of stores) await store.close();
  rmSync(folder, { recursive: true });
  if (REDIS.skip) return;
  await redis.stop();
  await cluster.stop();
});

for (const kind of KINDS)
  describe(`limits that are counted in ${kind}`, kind === 'memory' || kind === 'file' ? {} : REDIS, () => {
    let store: ReplayStore;
    beforeAll(async () => {
      store = await open(kind);
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

    it('of the cost alone let any number of calls pass', async () => {
      const free = [limitOf(`${kind} cost alone`, { maxTotalMicroUsd: 2 })];
      for (let calls = 0; calls < 3; calls++) expect((await call(store, free)).kind).toBe('new');
    });

    it('do not use up the invocation of a call that they refuse', async () => {
      const tight = limitOf(`${kind} tight`, { maxTotalMicroUsd: 5 });
      const dear = () => store.use(`${kind} dear`, NOW, 961, chargeOf([tight], 6));
      expect(await dear()).toMatchObject({ kind: 'reached' });
      expect(await dear()).toMatchObject({ kind: 'reached' });
    });

    it('take back once, of many instances that give back different amounts at the same time', async () => {
      const limit = limitOf(`${kind} from two`, { maxCalls: 2, maxTotalMicroUsd: 100 });
      const key = `${kind} from two`;
      await store.use(key, NOW, 961, chargeOf([limit], 30));
      await call(store, [limit], 40);
      // In memory, another store is another verifier; a file has one.
      const other = kind === 'memory' || kind === 'file' ? store : await open(kind);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, at) =>
          (at % 2 === 0 ? store : other).refund?.(key, {
            calls: at % 3 === 0 ? 1 : 0,
            parts: [{ receipt: limit.receipt, microUsd: 30 }],
          }),
        ).map(async (answer) => answer),
      );
      expect(answers.toSorted()).toEqual(['refunded', ...Array<string>(19).fill('repeated')]);
      expect((await store.usageOf(limit.receipt))?.microUsd).toBe(40);
    });

    it('take back what a call was charged: once, at all levels or none, and never below 0', async () => {
      const [root, leaf] = [
        limitOf(`${kind} back`, { maxCalls: 2, maxTotalMicroUsd: 100 }),
        limitOf(`${kind} back too`, { level: 1, maxTotalMicroUsd: 50 }),
      ];
      const key = `${kind} refunded`;
      const use = () => store.use(key, NOW, 961, chargeOf([root, leaf], 30));
      const back = (calls: 0 | 1, microUsd: number, more = 0) =>
        store.refund?.(key, {
          calls,
          parts: [
            { receipt: root.receipt, microUsd },
            { receipt: leaf.receipt, microUsd: microUsd + more },
          ],
        });
      const used = () => Promise.all([store.usageOf(root.receipt), store.usageOf(leaf.receipt)]);
      expect(await back(1, 30)).toBe('unknown');
      await use();
      expect(await back(1, 30, 1)).toBe('unknown');
      expect(await used()).toEqual(Array(2).fill({ calls: 1, microUsd: 30 }));
      const many = await Promise.all(Array.from({ length: 9 }, async () => back(0, 10)));
      expect(many.toSorted()).toEqual(['refunded', ...Array<string>(8).fill('repeated')].toSorted());
      expect(await used()).toEqual(Array(2).fill({ calls: 1, microUsd: 20 }));
      expect(await back(1, 20)).toBe('repeated');
      expect((await use()).kind).toBe('replayed');
      // The whole call, which another can take.
      const other = limitOf(`${kind} last`, { maxCalls: 1 });
      const last = `${kind} last call`;
      await store.use(last, NOW, 961, chargeOf([other], 30));
      expect((await call(store, [other])).kind).toBe('reached');
      const whole = { calls: 1, parts: [{ receipt: other.receipt, microUsd: 0 }] } as const;
      expect(await store.refund?.(last, whole)).toBe('refunded');
      expect((await call(store, [other])).kind).toBe('new');
      expect(await store.refund?.('unlimited', { ...whole, calls: 0 })).toBe('unknown');
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
    // Two hours after the end there is room again.
    const end = NOW + 3 * 3_600;
    await expect(call(store, [{ ...at(11), exp: null }], 0, end - 1)).rejects.toThrow(ReplayStoreError);
    expect((await call(store, [{ ...at(11), exp: null }], 0, end)).kind).toBe('new');
    expect(store.counters).toBeLessThan(10);
  });

  it('refuse receipts whose counters may be forgotten, where the clock goes back', async () => {
    const store = createMemoryReplayStore({ maxEntries: 4 });
    const limit = limitOf('gone', { maxCalls: 1 });
    expect((await call(store, [limit])).kind).toBe('new');
    expect((await call(store, [limitOf('next', { maxCalls: 1, exp: null })], 0, NOW + 19_999)).kind).toBe(
      'new',
    );
    expect(store.counters).toBe(1);
    await expect(call(store, [limit])).rejects.toThrow('the clock has gone back');
  });

  it('keep the counter of a receipt without an end for 400 days after its last use', async () => {
    const store = createMemoryReplayStore({ maxEntries: 4 });
    const [standing, other] = ['standing', 'other'].map((name) => limitOf(name, { maxCalls: 2, exp: null }));
    const day = (days: number) => NOW + days * 86_400;
    for (const at of [0, 399]) await call(store, [standing as CountedLimits], 0, day(at));
    await expect(call(store, [other as CountedLimits], 0, day(799) - 1)).rejects.toThrow('it is full');
    expect((await call(store, [other as CountedLimits], 0, day(799))).kind).toBe('new');
  });

  it('forget a bounded number of counters at a time, and search longer where there is no place', async () => {
    const store = createMemoryReplayStore({ maxEntries: 48 });
    const later = NOW + 99_999;
    const names = (count: number, from: string, exp: number | null) =>
      Array.from({ length: count }, (_, at) => limitOf(`${from} ${at}`, { maxCalls: 9, exp }));
    await call(store, names(10, 'ended', NOW + 1));
    await call(store, names(2, 'new', null), 0, later);
    expect(store.counters).toBe(4);
    const full = createMemoryReplayStore({ maxEntries: 48 });
    await call(full, [...names(11, 'stays', null), limitOf('last', { maxCalls: 9, exp: NOW + 1 })]);
    expect((await call(full, names(1, 'next', null), 0, later)).kind).toBe('new');
    expect(full.counters).toBe(12);
  });

  it('count for an hour after the receipt, in which it may be accepted, and one more', async () => {
    const store = createMemoryReplayStore({ maxEntries: 4 });
    await store.use('tolerant', NOW, 961, chargeOf([limitOf('tolerant', { maxCalls: 1 })]));
    const other = [limitOf('other', { maxCalls: 1, exp: null })];
    await expect(call(store, other, 0, NOW + 10_799)).rejects.toThrow('it is full');
    expect((await call(store, other, 0, NOW + 10_800)).kind).toBe('new');
  });

  it('take nothing back for an invocation that was not charged', async () => {
    const store = createMemoryReplayStore();
    const limit = limitOf('not charged', { maxCalls: 1, maxTotalMicroUsd: 9 });
    const back = (key: string, calls: 0 | 1, microUsd: number) =>
      store.refund?.(key, { calls, parts: [{ receipt: limit.receipt, microUsd }] });
    for (const key of ['free', 'free too']) await store.use(key, NOW, 961, null);
    expect(await back('free', 1, 0)).toBe('unknown');
    await store.use('charged', NOW, 961, chargeOf([limit], 5));
    expect(await back('charged', 1, 0)).toBe('refunded');
    expect(await back('free', 1, 0)).toBe('unknown');
    expect(await store.usageOf(limit.receipt)).toEqual({ calls: 0, microUsd: 5 });
  });
});

describe('limits that are counted in Redis', REDIS, () => {
  const keys = async (pattern: string) => (await command(redis, ['KEYS', pattern])) as string[];

  it('end two hours after their receipts', async () => {
    const store = await open('redis');
    const limit = limitOf('tolerant', { maxCalls: 9 });
    const ttl = async () => {
      const [name = ''] = await keys(`*#${limit.receipt.slice(7)}`);
      return Math.round(
        Number(await command(redis, ['PTTL', name])) / 1000 - ((limit.exp ?? 0) - Date.now() / 1000),
      );
    };
    await call(store, [limit]);
    expect(await ttl()).toBeCloseTo(7_200, -1);
    const forever = limitOf('forever', { maxCalls: 9, exp: null });
    await call(store, [forever]);
    const [name = ''] = await keys(`*#${forever.receipt.slice(7)}`);
    const days = () => command(redis, ['PTTL', name]).then((ms) => Number(ms) / 86_400_000);
    expect(await days()).toBeCloseTo(400, 2);
    await command(redis, ['PEXPIRE', name, '60000']);
    await call(store, [forever]);
    expect(await days()).toBeCloseTo(400, 2);
  });

  it('refuse where Redis has something else under a name, or another time', async () => {
    const store = await open('redis');
    const foreign = limitOf('foreign', { maxCalls: 9 });
    await call(store, [foreign]);
    const [name = ''] = await keys(`*#${foreign.receipt.slice(7)}`);
    for (const found of [
      ['SET', name, 'x'],
      ['HSET', name, 'calls', 'many'],
      ['HSET', name, 'calls', '1.5'],
      ['HSET', name, 'calls', '-1'],
      ['HSET', name, 'micro_usd', '1e3'],
      ['HSET', name, 'micro_usd', ''],
    ]) {
      await command(redis, ['DEL', name]);
      await command(redis, found);
      for (let at = 0; at < 5; at++)
        await expect(call(store, [foreign])).rejects.toThrow(
          'Redis has something else under the name of a counter',
        );
    }
    // What comes before it in the chain is not charged either.
    const chain = [limitOf('before it', { maxCalls: 9 }), limitOf('after it', { level: 1, maxCalls: 9 })];
    await call(store, chain);
    const [after = ''] = await keys(`*#${chain[1]?.receipt.slice(7)}`);
    await command(redis, ['HSET', after, 'calls', '1.5']);
    await expect(call(store, chain)).rejects.toThrow('something else');
    expect((await store.usageOf(chain[0]?.receipt ?? ''))?.calls).toBe(1);
    const ended = limitOf('ended', { maxCalls: 9, exp: NOW - 7_300 });
    await expect(call(store, [ended])).rejects.toThrow('ended two hours ago by the clock of Redis');
    // This says nothing about other calls.
    expect(store.unreadyReason).toBeNull();
  });

  it('take one round trip, also where Redis has forgotten the script', async () => {
    const store = await open('redis');
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

  it('take nothing back where Redis has something else under a name, in one round trip, and keep the life of records', async () => {
    const store = await open('redis');
    const limit = limitOf('odd', { maxCalls: 9 });
    const refund = (key: string) =>
      store.refund?.(key, { calls: 1, parts: [{ receipt: limit.receipt, microUsd: 0 }] });
    await store.use('odd', NOW, 961, chargeOf([limit]));
    const [counter = ''] = await keys(`*#${limit.receipt.slice(7)}`);
    const [record = ''] = await keys(`${counter.split('#')[0] ?? ''}:*`);
    for (const found of [
      ['SET', counter, 'x'],
      ['HSET', counter, 'calls', 'many'],
      ['HSET', counter, 'calls', '0'],
      ['HSET', counter, 'calls', '1.5'],
    ]) {
      await command(redis, ['DEL', counter]);
      await command(redis, found);
      expect(await refund('odd')).toBe('unknown');
    }
    await command(redis, ['HSET', counter, 'calls', '3']);
    await command(redis, ['CONFIG', 'RESETSTAT']);
    expect(await refund('odd')).toBe('refunded');
    expect(String(await command(redis, ['INFO', 'commandstats']))).toContain('cmdstat_evalsha:calls=1,');
    expect(await command(redis, ['HGET', counter, 'calls'])).toBe('2');
    const ttl = Number(await command(redis, ['PTTL', record]));
    expect(ttl).toBeGreaterThan(900_000);
    expect(ttl).toBeLessThanOrEqual(961_000);
    await command(redis, ['DEL', record]);
    await command(redis, ['LPUSH', record, 'x']);
    expect(await refund('odd')).toBe('unknown');
  });

  it('are kept apart by a prefix, whatever is in it', async () => {
    const store = await openRedisReplayStore({ url: redis.url, keyPrefix: 'a*[b]?:', timeoutMs: 20_000 });
    stores.push(store);
    const [first, second] = [limitOf('first', { maxCalls: 1 }), limitOf('second', { maxCalls: 1 })];
    await call(store, [first, second]);
    expect(await store.usageOf(second.receipt)).toEqual({ calls: 1, microUsd: 0 });
    expect(await (await open('redis')).usageOf(second.receipt)).toBeNull();
  });
});
