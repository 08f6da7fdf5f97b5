// Runs random schedules of calls under limited receipts in memory, Redis and a cluster, with one and four processes, which
// freeze and die as Redis does. Needs redis-server. `npm run compile && node .build/scripts/usage/main.js [schedules] [seed]`
import { setTimeout as pause } from 'node:timers/promises';
import { createMemoryReplayStore, openRedisReplayStore, type ReplayStore } from '../../src/usage/index.js';
import { Random } from '../../test/oracle/generator/random.js';
import { localInstance, processInstance, runBatch, type Instance } from '../../test/usage/model.js';
import { startRedisCluster } from '../../test/usage/redis-cluster.js';
import { RedisServer } from '../../test/usage/redis-server.js';

const schedules = Number(process.argv[2] ?? 10_000);
const random = new Random(Number(process.argv[3] ?? 1));
const BATCH = 250;
const faults: string[] = [];
let unknown = 0;

async function run(
  name: string,
  instances: readonly Instance[],
  store: ReplayStore,
  servers: readonly RedisServer[],
): Promise<void> {
  for (let done = 0; done < schedules / 5; done += BATCH) {
    const seeds = Array.from({ length: BATCH }, () => random.below(2 ** 32));
    const batch = await runBatch(seeds, instances, async () => {
      if (servers.length === 0) return;
      const [server, instance] = [random.pick(servers), random.pick(instances)];
      await pause(random.below(100));
      if (random.chance(0.6)) {
        server.freeze();
        await pause(random.below(300));
        server.thaw();
      }
      if (random.chance(0.5)) await instance.kill();
      if (!random.chance(0.4)) return;
      await server.kill();
      await server.restart();
    });
    unknown += batch.unknown;
    faults.push(...(await whenWell(() => batch.check(store))));
  }
  console.log(`${name}: ${faults.length} faults, nothing known of ${unknown} calls so far`);
}

/** A Redis that was killed needs a moment. */
async function whenWell<T>(check: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await check();
    } catch (error) {
      if (tries > 100) throw error;
      await pause(100);
    }
  }
}

const many = <T>(make: () => Promise<T>) => Promise.all([make(), make(), make(), make()]);
const memory = createMemoryReplayStore();
await run('memory', [await localInstance(() => Promise.resolve(memory))], memory, []);

const durable = ['--appendonly', 'yes'];
const redis = await RedisServer.start(...durable);
const cluster = await startRedisCluster(3, ...durable);
try {
  for (const [name, url, servers] of [
    ['Redis', redis.url, [redis]],
    ['a cluster', cluster.nodes.map((node) => node.url).join(','), cluster.nodes],
  ] as const) {
    const open = () => openRedisReplayStore({ url, timeoutMs: 200 });
    const store = await openRedisReplayStore({ url, timeoutMs: 2_000 });
    const [one, four] = [await localInstance(open), await many(() => processInstance(url))];
    await run(`${name}, one process`, [one], store, servers);
    await run(`${name}, four processes`, four, store, servers);
    for (const instance of [one, ...four]) await instance.close();
    await store.close();
  }
} finally {
  await redis.stop();
  await cluster.stop();
}
for (const fault of faults.slice(0, 20)) console.error(fault);
process.exitCode = faults.length === 0 ? 0 : 1;
