import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openRedisReplayStore, useInvocation } from '../../src/usage/index.js';
import type { RedisReplayStoreOptions, ReplayStore } from '../../src/usage/index.js';
import { Failure } from '../../src/verify/codes.js';
import type { CountedLimits } from '../../src/verify/limits.js';
import { connectRedis, type RedisConnection } from '../../src/redis/connection.js';
import { RedisMark, type FoundLoss } from '../../src/usage/redis-mark.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { limitOf } from './limits.js';
import { command, RedisServer } from './redis-server.js';

const SKEW_SECS = 30;
const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: SKEW_SECS };
const clock = () => Math.floor(Date.now() / 1000);
const MARK = 'drs:replay:mark';
let serial = 0;

/** An invocation that was signed so many seconds from now, and not used. */
const signed = (secs = 0) => ({
  ...{ iss: 'did:key:z6Mk', sub: 'did:key:z6Mk', jti: `inv:${++serial}`, iat: clock() + secs, args: {} },
});
/** @param later asked so many seconds from now */
async function use(
  store: ReplayStore,
  invocation = signed(),
  limits: readonly CountedLimits[] = [],
  later = 0,
) {
  const used = await useInvocation(invocation, limits, store, clock() + later, rules);
  return used instanceof Failure ? `${used.code} ${used.message}` : 'accepted';
}
/** A call that is signed when what was lost is over, and how it ends. */
const useLater = (store: ReplayStore, limits: readonly CountedLimits[] = []) =>
  use(store, signed(2 * SKEW_SECS + 5), limits, 2 * SKEW_SECS + 5);
const LOST = /^REPLAY_STORE_UNAVAILABLE .*\(the store has lost what was used before\)/;
const UNCOUNTED =
  /^REPLAY_STORE_UNAVAILABLE .*\(the store has lost what was used of a limit\).*LIMITS_AFTER_LOSS/;

describe('a Redis replay store whose Redis loses data', needs('redis-server'), () => {
  const stores: ReplayStore[] = [];
  const servers: RedisServer[] = [];
  const warnings: string[] = [];
  const errors: string[] = [];
  const log = {
    info: () => undefined,
    warn: (_: object, message: string) => warnings.push(message),
    error: (_: object, message: string) => errors.push(message),
  };
  const start = async (...options: string[]) => {
    const server = await RedisServer.start(...options);
    servers.push(server);
    return server;
  };
  const startNew = async (...options: string[]) => {
    const server = await RedisServer.startNew(...options);
    servers.push(server);
    return server;
  };
  const open = async (
    { url }: { readonly url: string },
    options: Partial<RedisReplayStoreOptions> = {},
    lookMs = 50,
  ) => {
    const store = await openRedisReplayStore({ url, timeoutMs: 20_000, log, ...options }, { lookMs });
    stores.push(store);
    return store;
  };
  /** A loss is known before calls may use a Redis that is back. */
  const notices = (store: ReplayStore) =>
    eventually(() => expect([store.losses, store.unreadyReason]).toEqual([1, null]));

  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
    errors.length = warnings.length = 0;
  });
  afterAll(async () => {
    for (const server of servers) await server.stop();
  });

  it('does not accept again what was used before Redis was emptied, in any instance, also a new one', async () => {
    const redis = await start();
    const [one, other] = [await open(redis), await open(redis)];
    // Both are signed by a clock that is ahead, and accepted before their time comes.
    const [used, unused] = [signed(SKEW_SECS - 2), signed(SKEW_SECS - 2)];
    expect(await use(one, used)).toBe('accepted');
    await command(redis, ['FLUSHALL']);
    await notices(one);
    await notices(other);
    const later = await open(redis);
    for (const store of [one, other, later]) {
      expect(await use(store, used)).toMatch(LOST);
      expect(await use(store, unused)).toMatch(LOST);
      expect(await useLater(store)).toBe('accepted');
    }
    expect(errors[0]).toMatch(
      /^Redis at .* may have lost records and counts of calls; calls that were signed/,
    );
    const found = [one, other, later].map(({ isLossFoundHere }) => isLossFoundHere);
    expect(found.filter(Boolean)).toHaveLength(1);
    expect(found[2]).toBe(false);
  });

  it('takes a Redis in which nobody has looked for a loss of all that was before, once, and says so', async () => {
    const redis = await startNew();
    const before = [limitOf('before', { maxCalls: 5 })];
    const early = signed(SKEW_SECS);
    for (const _ of [1, 2]) {
      const store = await open(redis);
      expect(await use(store, early)).toMatch(LOST);
      expect(await useLater(store)).toBe('accepted');
      expect(await useLater(store, before)).toMatch(UNCOUNTED);
      const nbf = clock() + 2 * SKEW_SECS;
      expect(await useLater(store, [limitOf('after', { maxCalls: 5, nbf })])).toBe('accepted');
    }
    expect(warnings).toEqual([
      expect.stringMatching(
        /^Redis at .* is a new store: what was used before is not known; calls that were signed before are refused, and/,
      ),
    ]);
    expect(errors).toEqual([]);
    expect(await useLater(await open(redis, { limitsAfterLoss: 'pass' }), before)).toBe('accepted');
  });

  it('finds again that a store is new where its mark was deleted', async () => {
    const redis = await startNew();
    await (await open(redis)).close();
    await command(redis, ['DEL', MARK]);
    const again = await open(redis);
    expect([again.losses, await use(again)]).toEqual([1, expect.stringMatching(LOST)]);
  });

  it('sees that Redis was emptied also where a new instance has written in it since', async () => {
    const redis = await start();
    const [store, other] = [await open(redis, {}, 700), await open(redis, {}, 700)];
    const used = signed();
    expect(await use(store, used)).toBe('accepted');
    await command(redis, ['FLUSHALL']);
    await open(redis);
    await notices(store);
    await notices(other);
    expect(await use(other, used)).toMatch(LOST);
    expect(store.emptiedAt).toBeGreaterThan(0);
  });

  it('refuses calls under limits from before, until an operator lets them pass', async () => {
    const redis = await start();
    const store = await open(redis);
    const before = [limitOf('before', { maxCalls: 5 })];
    expect(await use(store, signed(), before)).toBe('accepted');
    await command(redis, ['FLUSHALL']);
    await notices(store);
    expect(await useLater(store, before)).toMatch(UNCOUNTED);
    expect(await useLater(await open(redis, { limitsAfterLoss: 'pass' }), before)).toBe('accepted');
    expect(errors).toEqual([expect.stringContaining('and calls under receipts with limits from before')]);
  });

  it('takes a restart for a loss of what was used and counted last', async () => {
    const redis = await start();
    const store = await open(redis);
    const limits = [limitOf('kept', { maxCalls: 2 })];
    const used = signed(SKEW_SECS - 5);
    expect(await use(store, used, limits)).toBe('accepted');
    await redis.kill();
    await redis.restart();
    await notices(store);
    expect(await use(store, used, limits)).toMatch(LOST);
    expect(await useLater(store, limits)).toMatch(UNCOUNTED);
    // What is still there counts where an operator lets them pass.
    const passing = await open(redis, { limitsAfterLoss: 'pass' });
    expect(await useLater(passing, limits)).toBe('accepted');
    expect(await useLater(passing, limits)).toMatch(/^LIMIT_REACHED /);
  });

  it('sees that all processes were away while Redis was restarted', async () => {
    const redis = await start();
    const before = await open(redis);
    const used = signed();
    expect(await use(before, used)).toBe('accepted');
    await before.close();
    await redis.kill();
    await redis.restart();
    const after = await open(redis);
    expect(await use(after, used)).toMatch(LOST);
    expect([after.losses, after.isLossFoundHere]).toEqual([1, true]);
  });

  it('keeps limits over a fail-over only where replicas have every charge', async () => {
    const primary = await start();
    const { hostname, port } = new URL(primary.url);
    const replica = await startNew('--replicaof', `${hostname} ${port}`, '--repl-diskless-sync-delay', '0');
    const isLinked = async () =>
      expect(String(await command(replica, ['INFO', 'replication']))).toContain('master_link_status:up');
    await eventually(isLinked);
    const url = `${primary.url},${replica.url}`;
    const store = await open({ url });
    const waiting = await open({ url }, { waitReplicas: 1 });
    const tooMany = await open({ url }, { waitReplicas: 2, timeoutMs: 1_000 });
    const limits = [limitOf('limited', { maxCalls: 3 })];
    const used = signed();
    expect(await use(waiting, used, limits)).toBe('accepted');
    expect(await use(store, signed(), limits)).toBe('accepted');
    expect(await use(tooMany, signed(), limits)).toMatch(
      /^REPLAY_STORE_UNAVAILABLE .*\(1 replicas of Redis have the charge, expected 2\)/,
    );
    await primary.kill();
    await command(replica, ['REPLICAOF', 'NO', 'ONE']);
    for (const one of [store, waiting]) await notices(one);
    for (const one of [store, waiting]) expect(await use(one, used, limits)).toMatch(LOST);
    // All that were allowed, and the one that was refused after it was charged.
    expect(await useLater(await open({ url }, { limitsAfterLoss: 'pass' }), limits)).toMatch(
      /^LIMIT_REACHED/,
    );
  });

  it('refuses limits after a fail-over, since charges may be missing, and not where they waited', async () => {
    for (const waitReplicas of [0, 1]) {
      const primary = await start();
      const { hostname, port } = new URL(primary.url);
      const replica = await startNew('--replicaof', `${hostname} ${port}`, '--repl-diskless-sync-delay', '0');
      await eventually(async () =>
        expect(String(await command(replica, ['INFO', 'replication']))).toContain('master_link_status:up'),
      );
      const store = await open({ url: `${primary.url},${replica.url}` }, { waitReplicas });
      const limits = [limitOf('limited', { maxCalls: 1 })];
      expect(await use(store, signed(), limits)).toBe('accepted');
      await primary.kill();
      await command(replica, ['REPLICAOF', 'NO', 'ONE']);
      await notices(store);
      expect(await useLater(store, limits)).toMatch(waitReplicas === 0 ? UNCOUNTED : /^LIMIT_REACHED/);
      if (waitReplicas > 0)
        expect(errors.at(-1)).toMatch(
          /may have lost what it recorded last; calls that were signed before are refused$/,
        );
    }
  });

  it('takes evictions for a loss, whether it saw the policy or only the keys that went', async () => {
    const redis = await start();
    const [store, rare] = [await open(redis), await open(redis, {}, 600_000)];
    const used = signed();
    const limits = [limitOf('limited', { maxCalls: 2 })];
    expect(await use(store, used, limits)).toBe('accepted');
    // Between two looks, and then as before.
    await rare.close();
    await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random']);
    await eventually(() => expect(store.unreadyReason).toBe('replay_store_evicts'));
    await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'noeviction']);
    await notices(store);
    expect(await use(store, used, limits)).toMatch(LOST);
    expect(await useLater(store, limits)).toMatch(UNCOUNTED);
    await store.close();
    // Nobody looks while keys go.
    await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random']);
    for (let at = 0; at < 50; at++) await command(redis, ['SET', `filler ${at}`, 'x'.repeat(10_000)]);
    await command(redis, ['CONFIG', 'SET', 'maxmemory', '1']);
    await eventually(async () =>
      expect(String(await command(redis, ['INFO', 'stats']))).toMatch(/evicted_keys:[1-9]/),
    );
    await command(redis, ['CONFIG', 'SET', 'maxmemory', '0']);
    await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'noeviction']);
    const after = await open(redis);
    expect(after.losses).toBe(1);
    expect(await use(after)).toMatch(LOST);
  });

  it('uses a Redis that keeps no file only where that is meant', async () => {
    const redis = await start('--appendonly', 'no');
    await expect(openRedisReplayStore({ url: redis.url })).rejects.toThrow(
      /would forget them when it restarts; set `appendonly yes` in its configuration, or REDIS_MAY_FORGET \(mayForget\)/,
    );
    const store = await open(redis, { mayForget: true });
    const used = signed();
    expect(await use(store, used)).toBe('accepted');
    await redis.kill();
    await redis.restart('--appendonly', 'no');
    await notices(store);
    await eventually(async () => expect(await useLater(store)).toBe('accepted'));
    expect(await use(store, used)).toMatch(LOST);
  });

  it('takes an old copy of the data for a loss of all', async () => {
    const redis = await start();
    const store = await open(redis, {}, 20);
    const text = String(await command(redis, ['GET', MARK])).split(' ');
    await command(redis, ['SET', MARK, [...text.slice(0, -1), Number(text.at(-1)) - 3_600_000].join(' ')]);
    await notices(store);
    expect(store.emptiedAt).toBeGreaterThan(0);
  });

  it.each(['', 'name run 0 0 1', 'v2 name run repl 0 0 0 0 1', 'v1 name run repl x 0 0 0 1'])(
    'takes %j for no mark',
    async (text) => {
      const redis = await start();
      await command(redis, ['SET', MARK, text]);
      const store = await open(redis);
      expect(store.losses).toBe(1);
      expect(await use(store)).toMatch(LOST);
      expect(String(await command(redis, ['GET', MARK]))).toMatch(/^v1 /);
    },
  );

  it('goes by the clock of Redis, corrected by the own, and says that they differ', async () => {
    const redis = await start();
    const store = await open(redis);
    expect(store.unreadyReason).toBeNull();
    expect(store.clockAheadSecs).toBeLessThan(20);
    // As if somebody whose clock is 29 s ahead had looked, and lost everything just now. In one step: the store looks, too.
    const change = `local t = {} for w in redis.call('GET', KEYS[1]):gmatch('%S+') do t[#t + 1] = w end
      t[5] = ARGV[1] t[7] = ARGV[2] t[8] = ARGV[2] return redis.call('SET', KEYS[1], table.concat(t, ' '))`;
    await command(redis, ['EVAL', change, '1', MARK, '29000', String(Date.now())]);
    await notices(store);
    expect(Number(store.lostAt) - clock()).toBeGreaterThan(0);
    expect(Number(store.lostAt) - clock()).toBeLessThanOrEqual(29);
    expect(store.isLossFoundHere).toBe(false);
  });

  it('keeps the later time of two who look at once', async () => {
    const redis = await start();
    const connection = await connectRedis(redis.url);
    const facts = { runId: 'run', replId: 'repl', replId2: '0', evicted: 0, hasForgotten: false };
    const lost: FoundLoss[] = [];
    const [one, other] = [1, 2].map(() => new RedisMark(MARK, false, (loss) => lost.push(loss)));
    for (const mark of [one, other]) await mark?.look(connection, facts);
    // The first has read the time, and writes when the other has looked later.
    let sent = 0;
    const send: RedisConnection['send'] = async (key, line) => {
      const readAt = Date.now();
      if (sent++ > 0) {
        await eventually(() => expect(Date.now()).toBeGreaterThan(readAt), 1);
        await other?.look(connection, facts);
      }
      return connection.send(key, line);
    };
    await one?.look({ ...connection, send }, facts);
    await other?.look(connection, facts);
    connection.destroy();
    // One loss: the mark that was there is of another run.
    expect([sent, lost.length]).toEqual([2, 1]);
  });

  it('says nothing of a Redis that stays as it is, however many look', async () => {
    const redis = await start();
    const all = await Promise.all(Array.from({ length: 32 }, () => open(redis, {}, 5)));
    const beats = async () =>
      Number(String(await command(redis, ['INFO', 'commandstats'])).match(/eval:calls=(\d+)/)?.[1]);
    await eventually(async () => expect(await beats()).toBeGreaterThan(400));
    expect(all.map(({ losses, lostAt, unreadyReason }) => [losses, lostAt, unreadyReason])).toEqual(
      all.map(() => [0, 0, null]),
    );
    expect([errors, warnings]).toEqual([[], []]);
  });
});
