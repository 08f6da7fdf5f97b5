import { availableParallelism } from 'node:os';
import { bestTool, measureClosedLoop, prime } from '../load/measure-load.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { COLD_CACHE_BYTES, type Traffic } from '../workload/workload.js';

const WORKERS = [0, 1, 2] as const;

const CASES: readonly { traffic: Traffic; depth: number; connections: number }[] = [
  { traffic: 'warm', depth: 4, connections: 32 },
  { traffic: 'cold', depth: 4, connections: 32 },
  // A single deep chain that is not cached: here a second worker can halve the wait.
  { traffic: 'cold', depth: 16, connections: 1 },
];

/** Measures the effect of signature threads. */
export const scaling: Suite = {
  name: 'scaling',
  about: 'WORKER_THREADS 0, 1 and 2: throughput, processor time, and a lone deep cold chain',
  run: async (bench) => {
    const services = new Map<number, ServerProcess>();
    try {
      for (const workers of WORKERS) {
        const env = { WORKER_THREADS: String(workers), RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) };
        services.set(workers, await startService(env));
      }
      const cases = bench.plan.mode === 'quick' ? CASES.slice(0, 1) : CASES;
      for (const server of services.values()) {
        for (const { depth } of cases) await prime(bench, server, depth);
      }
      for (let run = 1; run <= Math.min(2, bench.plan.runs); run++) {
        for (const one of cases) for (const entry of services) await measure(bench, entry, one);
      }
      bench.recorder.notes.push(
        `scaling: ${availableParallelism()} cores in all, which the load generator shares with the threads`,
      );
    } finally {
      for (const server of services.values()) await server.stop();
    }
  },
};

async function measure(
  bench: Bench,
  [workers, server]: [number, ServerProcess],
  { traffic, depth, connections }: (typeof CASES)[number],
): Promise<void> {
  const tool = bestTool();
  bench.recorder.measureFloor();
  const name = `${traffic}/d${depth}/c${connections}/w${workers}`;
  const { requests, seconds } = await measureClosedLoop(bench, {
    id: `scaling/${name}`,
    parameters: { tool, traffic, depth, connections, workers },
    ...{ server, hasMetrics: true, tool, connections, seconds: bench.plan.seconds },
    workload: bench.workloads.files(traffic, depth),
  });
  bench.say(`scaling · ${name}: ${Math.round(requests / seconds)} /s`);
}
