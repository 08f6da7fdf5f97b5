import { median } from 'simple-statistics';
import { Pool } from 'undici';
import { RedisServer } from '../../test/usage/redis-server.js';
import { differenceOf, runCallers } from '../load/callers.js';
import { warmingUp, type Bench, type Suite } from '../run/suite.js';
import { startService, type ServerProcess } from '../service/start.js';
import { makeCalls } from '../workload/chains.js';

const DEPTH = 4;
const CONNECTIONS = 32;
const CALLS = 6000;
const CALLS_PER_CHAIN = 750;
const ROUNDS = { full: 6, all: 2, quick: 2, smoke: 1 };

/** Where used invocations are kept. */
const STORES = ['off', 'memory', 'redis'] as const;
type Store = (typeof STORES)[number];

/** Measures what it costs to remember that an invocation was used. Each call has a new one. */
export const usage: Suite = {
  name: 'usage',
  about: 'processor time of a call with replay protection in memory, in Redis (redis-server), without',
  run: async (bench) => {
    const { plan, recorder, say } = bench;
    const redis = await RedisServer.start();
    try {
      await using off = await startService();
      await using memory = await startService({ REPLAY_PROTECTION: 'memory' });
      await using shared = await startService({ REPLAY_PROTECTION: 'redis', REDIS_URL: redis.url });
      const servers = { off, memory, redis: shared };
      for (const store of STORES) await measure(warmingUp(bench), store, servers[store]);
      const added: Record<Store, number[]> = { off: [], memory: [], redis: [] };
      for (let round = 0; round < ROUNDS[plan.mode]; round++) {
        recorder.measureFloor();
        const cpu: Partial<Record<Store, number>> = {};
        // The speed of the machine changes: what is compared runs next to each other, in both orders.
        for (const store of round % 2 === 0 ? STORES : STORES.toReversed())
          cpu[store] = await bench.undisturbed(() => measure(bench, store, servers[store]));
        for (const store of STORES) added[store].push((cpu[store] ?? NaN) - (cpu.off ?? NaN));
      }
      for (const store of ['memory', 'redis'] as const) {
        recorder.record(`usage/added/${store}/cpu`, median(added[store]));
        say(`usage · ${store}: ${median(added[store]).toFixed(1)} µs over no replay protection`);
      }
    } finally {
      await redis.stop();
    }
  },
};

/** @returns the processor time of a call in µs, of the service without that of Redis */
async function measure({ recorder, watch, say }: Bench, store: Store, server: ServerProcess) {
  const id = `usage/${store}/d${DEPTH}/c${CONNECTIONS}`;
  const calls = makeCalls(DEPTH, CALLS, CALLS_PER_CHAIN);
  const pool = new Pool(`http://127.0.0.1:${server.port}`, { connections: CONNECTIONS });
  const ask = async () => {
    const call = calls.pop();
    if (call === undefined) return null;
    const { body } = await pool.request({ method: 'POST', path: '/verify', body: call.body });
    return differenceOf(await body.text(), call.answer);
  };
  const before = server.processorTime();
  const { wrong, firstWrong } = await watch(id, server.pid, () => runCallers(CONNECTIONS, Infinity, ask));
  const cpu = (server.processorTime() - before) / CALLS;
  await pool.close();
  recorder.blame(id, wrong, firstWrong);
  if (!Number.isNaN(cpu)) recorder.record(`${id}/cpu`, cpu);
  say(`${id}: ${cpu.toFixed(1)} µs of processor time each`);
  return cpu;
}
