import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { replayStoreContract } from '../../src/usage/contract.js';
import { FileReplayStore } from '../../src/usage/file-store.js';
import { createMemoryReplayStore, openRedisReplayStore } from '../../src/usage/index.js';
import type { Charge, ReplayStore, Use } from '../../src/usage/usage-store.js';
import { needs } from '../support/programs.js';
import { RedisServer } from './redis-server.js';

describe('the contract of replay stores is kept by the store in memory', () => {
  for (const [name, run] of replayStoreContract(() => Promise.resolve([createMemoryReplayStore()])))
    it(name, run);
});

describe('the contract of replay stores is kept by the store in a file', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-contract-'));
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  afterAll(() => rmSync(folder, { recursive: true }));
  const open = () => FileReplayStore.open(folder, { maxEntries: 1_000, log });
  for (const [name, run] of replayStoreContract(() => Promise.all([open(), open()]))) it(name, run);
});

describe('the contract of replay stores is kept by the store in Redis', needs('redis-server'), () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis.stop());
  const open = () => openRedisReplayStore({ url: redis.url, timeoutMs: 20_000 });
  for (const [name, run] of replayStoreContract(() => Promise.all([open(), open()]))) it(name, run);
});

/** A right store but for what differs. */
function broken(differs: (store: ReplayStore) => Partial<ReplayStore>): () => Promise<[ReplayStore]> {
  return () => {
    const store = createMemoryReplayStore();
    const right = {
      unreadyReason: null,
      use: store.use.bind(store),
      usageOf: store.usageOf.bind(store),
      close: store.close.bind(store),
      ...(store.refund && { refund: store.refund.bind(store) }),
    };
    return Promise.resolve([{ ...right, ...differs(store) }]);
  };
}

/** It looks, waits, and then writes: as with `SELECT` and `INSERT`. */
const looksFirst = broken((store) => {
  const used = new Set<string>();
  return {
    async use(key, now, ttlSecs, charge): Promise<Use> {
      if (used.has(key)) return { kind: 'replayed' };
      await turn();
      used.add(key);
      return store.use(`${key} ${Math.random()}`, now, ttlSecs, charge);
    },
  };
});

/** One limit after the other: what the first has charged stays charged. */
const oneByOne = broken((store) => ({
  async use(key, now, ttlSecs, charge): Promise<Use> {
    const usage = [];
    for (const limits of charge?.limits ?? []) {
      const one: Charge = { limits: [limits], costMicroUsd: charge?.costMicroUsd ?? 0 };
      const used = await store.use(`${key} ${limits.level}`, now, ttlSecs, one);
      if (used.kind !== 'new') return used;
      usage.push(...used.usage);
    }
    return charge === null ? store.use(key, now, ttlSecs, null) : { kind: 'new', usage };
  },
}));

const shortKeys = broken((store) => ({
  use: (key, ...call) => store.use(key.toLowerCase().slice(0, 128), ...call),
}));

const givesBackTwice = broken((store) => ({
  refund: async (key, refund) => ((await store.refund?.(key, refund)) === 'unknown' ? 'unknown' : 'refunded'),
}));

it.each([
  ['looks before it writes', looksFirst, ['lets one of equal uses at the same time through']],
  [
    'charges one limit after the other',
    oneByOne,
    ['charges all limits or none, and a call that reached one may be made again'],
  ],
  ['shortens keys', shortKeys, ['tells any two keys apart']],
  ['gives back twice', givesBackTwice, ['gives back once, if it gives back at all']],
])('a store that %s breaks it', async (_, open, rules) => {
  const failed: string[] = [];
  for (const [name, run] of replayStoreContract(open))
    await run().catch((error: unknown) => {
      expect(error).toHaveProperty('code', 'ERR_ASSERTION');
      failed.push(name);
    });
  expect(failed).toEqual(expect.arrayContaining(rules));
  expect(failed.length).toBeLessThan(4);
});
