import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { FileReplayStore } from '../../src/usage/file-store.js';
import { createMemoryReplayStore, openRedisReplayStore } from '../../src/usage/index.js';
import { eventually } from '../support/eventually.js';
import { localInstance, processInstance, runBatch } from './model.js';
import { RedisServer } from './redis-server.js';
import { needs } from '../support/programs.js';

const seeds = (count: number, from: number) => Array.from({ length: count }, (_, at) => from + at);

it('no schedule takes more than a limit, in memory', async () => {
  const store = createMemoryReplayStore();
  const { check } = await runBatch(seeds(300, 1), [await localInstance(() => Promise.resolve(store))]);
  expect(await check(store)).toEqual([]);
});

it('no schedule takes more than a limit, in a file of two processes, while they freeze and die', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-model-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const instances = [await processInstance(folder), await processInstance(folder)] as const;
  const [first, second] = instances;
  const { check, unknown } = await runBatch(seeds(150, 1), instances, async () => {
    for (let times = 0; times < 4; times++) {
      await pause(20);
      first.freeze();
      await pause(40);
      first.thaw();
      await (times % 2 === 0 ? second : first).kill();
    }
  });
  for (const instance of instances) await instance.close();
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const store = await FileReplayStore.open(folder, { maxEntries: 1e6, log });
  onTestFinished(() => store.close());
  expect(await check(store)).toEqual([]);
  expect(unknown).toBeGreaterThan(0);
});

// 10,000 schedules, also on a cluster: scripts/usage/main.ts.
it(
  'no schedule takes more than a limit, while Redis and instances freeze and die',
  needs('redis-server'),
  async () => {
    const redis = await RedisServer.start('--appendonly', 'yes');
    onTestFinished(() => redis.stop());
    const open = () => openRedisReplayStore({ url: redis.url, timeoutMs: 200 });
    const store = await open();
    const instances = [
      await localInstance(open),
      await localInstance(open),
      await processInstance(redis.url),
    ];
    onTestFinished(async () => {
      for (const instance of instances) await instance.close();
      await store.close();
    });
    const { check, unknown } = await runBatch(seeds(80, 1_000), instances, async () => {
      await pause(20);
      redis.freeze();
      await pause(30);
      redis.thaw();
      await instances[2]?.kill();
      await redis.kill();
      await redis.restart();
      await instances[0]?.kill();
    });
    await eventually(() => expect(store.unreadyReason).toBeNull());
    // The limit of time is for the schedules: on a busy machine an answer may take longer.
    const patient = await openRedisReplayStore({ url: redis.url, timeoutMs: 60_000 });
    onTestFinished(() => patient.close());
    expect(await check(patient)).toEqual([]);
    // Without this, disturbances that come too late would pass, too.
    expect(unknown).toBeGreaterThan(0);
  },
);
