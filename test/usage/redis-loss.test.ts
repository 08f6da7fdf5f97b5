import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openRedisReplayStore, useInvocation, type ReplayStore } from '../../src/usage/index.js';
import { Failure } from '../../src/verify/codes.js';
import type { CountedLimits } from '../../src/verify/limits.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { limitOf } from './limits.js';
import { command } from './redis-cluster.js';
import { RedisServer } from './redis-server.js';

const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 30 };
const clock = () => Math.floor(Date.now() / 1000);
let serial = 0;

/** An invocation that was signed so many seconds ago, and not used. */
const signed = (secsAgo = 0) => ({
  ...{ iss: 'did:key:z6Mk', jti: `inv:${++serial}`, iat: clock() - secsAgo, args: {} },
});
const use = async (store: ReplayStore, invocation = signed(), limits: readonly CountedLimits[] = []) => {
  const used = await useInvocation(invocation, limits, store, clock(), rules);
  return used instanceof Failure ? `${used.code} ${used.message}` : 'accepted';
};

describe('a Redis replay store whose Redis loses data', needs('redis-server'), () => {
  const stores: ReplayStore[] = [];
  const servers: RedisServer[] = [];
  const errors: string[] = [];
  const log = {
    info: () => undefined,
    warn: () => undefined,
    error: (_: object, message: string) => errors.push(message),
  };
  const start = async (...options: string[]) => {
    const server = await RedisServer.start(...options);
    servers.push(server);
    return server;
  };
  const open = async ({ url }: RedisServer, limitsAfterLoss: 'refuse' | 'pass' = 'refuse', lookMs = 50) => {
    const store = await openRedisReplayStore({ url, timeoutMs: 20_000, log, limitsAfterLoss }, { lookMs });
    stores.push(store);
    return store;
  };
  /** Waits until calls can be signed after what was lost. */
  const accepts = (store: ReplayStore) => eventually(async () => expect(await use(store)).toBe('accepted'));
  const notices = (store: ReplayStore, losses = 1) => eventually(() => expect(store.losses).toBe(losses));

  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
    errors.length = 0;
  });
  afterAll(async () => {
    for (const server of servers) await server.stop();
  });

  it('does not accept again what was used before Redis was emptied, in any instance, also a new one', async () => {
    const redis = await start();
    const [one, other] = [await open(redis), await open(redis)];
    const [used, unused] = [signed(), signed()];
    expect(await use(one, used)).toBe('accepted');
    await command(redis, ['FLUSHALL']);
    await notices(one);
    await notices(other);
    const later = await open(redis);
    for (const store of [one, other, later]) {
      expect(await use(store, used)).toMatch(/^REPLAY_STORE_UNAVAILABLE .*signed before the store lost data/);
      expect(await use(store, unused)).toMatch(/^REPLAY_STORE_UNAVAILABLE /);
      await accepts(store);
    }
    expect(errors[0]).toMatch(
      /^Redis at .* has lost all that it had recorded: calls that were signed before/,
    );
  });

  it('sees that Redis was emptied also where a new instance has written in it since', async () => {
    const redis = await start();
    const [store, other] = [await open(redis, 'refuse', 700), await open(redis, 'refuse', 700)];
    const used = signed();
    expect(await use(store, used)).toBe('accepted');
    await command(redis, ['FLUSHALL']);
    await open(redis);
    await notices(store);
    await notices(other);
    expect(await use(other, used)).toMatch(/^REPLAY_STORE_UNAVAILABLE /);
    expect(store.emptiedAt).toBeGreaterThan(0);
  });

  it('refuses calls under limits from before, until an operator lets them pass', async () => {
    const redis = await start();
    const store = await open(redis);
    const before = [limitOf('before', { maxCalls: 5 })];
    expect(await use(store, signed(), before)).toBe('accepted');
    await command(redis, ['FLUSHALL']);
    await notices(store);
    await accepts(store);
    expect(await use(store, signed(), before)).toMatch(
      /^REPLAY_STORE_UNAVAILABLE .*what was used of a limit.*LIMITS_AFTER_LOSS/,
    );
    // By a clock that may be half a minute ahead.
    const nbf = clock() + 31;
    expect(await use(store, signed(), [limitOf('after', { maxCalls: 5, nbf })])).toBe('accepted');
    expect(await use(await open(redis, 'pass'), signed(), before)).toBe('accepted');
    expect(errors).toEqual([expect.stringContaining('and calls under receipts with limits from before')]);
  });

  it('takes a restart for a loss of what was recorded last, and keeps the counters', async () => {
    const redis = await start('--appendonly', 'yes');
    const store = await open(redis);
    const limits = [limitOf('kept', { maxCalls: 2 })];
    const used = signed();
    expect(await use(store, used, limits)).toBe('accepted');
    await redis.kill();
    await redis.restart();
    await notices(store);
    expect(await use(store, used, limits)).toMatch(/^REPLAY_STORE_UNAVAILABLE /);
    await accepts(store);
    expect(await use(store, signed(), limits)).toBe('accepted');
    expect(await use(store, signed(), limits)).toMatch(/^LIMIT_REACHED /);
    expect(errors.at(-1)).toContain('has lost what it recorded last, as far as it can tell');
  });

  it('sees that all processes were away while Redis was restarted', async () => {
    const redis = await start('--appendonly', 'yes');
    const before = await open(redis);
    const used = signed();
    expect(await use(before, used)).toBe('accepted');
    await before.close();
    await redis.kill();
    await redis.restart();
    const after = await open(redis);
    expect(await use(after, used)).toMatch(/^REPLAY_STORE_UNAVAILABLE /);
    expect(after.losses).toBe(1);
  });

  it('uses a Redis that keeps no file only where that is meant', async () => {
    const redis = await start('--appendonly', 'no');
    await expect(openRedisReplayStore({ url: redis.url })).rejects.toThrow(
      /would forget them when it restarts; set `appendonly yes` in its configuration, or REDIS_MAY_FORGET \(mayForget\)/,
    );
    const store = await openRedisReplayStore(
      { url: redis.url, timeoutMs: 20_000, mayForget: true },
      { lookMs: 50 },
    );
    stores.push(store);
    const used = signed();
    expect(await use(store, used)).toBe('accepted');
    await redis.kill();
    await redis.restart('--appendonly', 'no');
    await eventually(async () => expect(await use(store, signed())).toBe('accepted'));
    expect(await use(store, used)).toMatch(/^REPLAY_STORE_UNAVAILABLE/);
  });

  it('takes an old copy of the data for a loss of all', async () => {
    const redis = await start();
    const store = await open(redis, 'refuse', 20);
    const name = 'drs:replay:mark';
    const [called, time, ...rest] = String(await command(redis, ['GET', name])).split(' ');
    await command(redis, ['SET', name, [called, Number(time) - 3_600, ...rest].join(' ')]);
    await notices(store);
    expect(store.emptiedAt).toBeGreaterThan(0);
    expect(errors).toEqual([expect.stringContaining('has lost all that it had recorded')]);
  });

  it('goes by the clock of its own, whatever the clock of who found the loss says', async () => {
    const redis = await start();
    const store = await open(redis);
    const name = 'drs:replay:mark';
    const [called, time, run] = String(await command(redis, ['GET', name])).split(' ');
    for (const [at, told] of [9_999_999_999, 1].entries()) {
      await command(redis, ['SET', name, [called, time, run, told, 0].join(' ')]);
      await notices(store, at + 1);
      for (const { lostAt } of [store, await open(redis)]) expect(lostAt).toBeLessThanOrEqual(clock());
      expect(store.lostAt).toBeGreaterThan(clock() - 60);
      await accepts(store);
    }
  });

  it('says nothing of a Redis that is new, or stays as it is', async () => {
    const redis = await start();
    const [one, other] = [await open(redis, 'refuse', 10), await open(redis, 'refuse', 10)];
    const beats = async () =>
      Number(String(await command(redis, ['INFO', 'commandstats'])).match(/eval:calls=(\d+)/)?.[1]);
    await eventually(async () => expect(await beats()).toBeGreaterThan(20));
    expect([one.losses, other.losses, one.lostAt, errors]).toEqual([0, 0, 0, []]);
  });
});
