import { measureCapacity, prime } from '../load/measure-load.js';
import { residentOf } from '../measure/processor-time.js';
import { SPLIT } from '../run/programs.js';
import type { Suite } from '../run/suite.js';
import { startService } from '../service/start.js';
import { measureRate, recordOpenLoop } from './latency.js';

const DEPTH = 4;

/** Measures whether a service becomes slower or larger with time. */
export const soak: Suite = {
  name: 'soak',
  about: 'p50 and p99 of each minute at half the capacity, memory at begin and end: with --seconds 3600',
  maxRuns: 1,
  isAboutLatency: true,
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    await using server = await startService({}, { cores: SPLIT?.service ?? null });
    await prime(bench, server, DEPTH);
    const workload = workloads.files('warm', DEPTH);
    const rate = (await measureCapacity(bench, workload, server)) / 2;
    const recordMemory = async (when: string) => {
      recorder.record(`soak/${when}/resident`, residentOf(server.pid));
      recorder.record(`soak/${when}/heap`, await server.metric('nodejs_heap_size_used_bytes'));
    };
    await recordMemory('begin');
    // The generator warms up in a seventh of each minute.
    const latencySeconds = (Math.min(60, plan.latencySeconds) * 6) / 7;
    for (let minute = 1; minute <= Math.ceil(plan.latencySeconds / 60); minute++) {
      const id = `soak/minute-${minute}`;
      const one = { ...bench, plan: { ...plan, latencySeconds } };
      recordOpenLoop(bench, id, await measureRate(one, id, server, workload, rate, minute));
    }
    await recordMemory('end');
  },
};
