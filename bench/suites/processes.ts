import { availableParallelism } from 'node:os';
import { bestTool, prime } from '../load/measure-load.js';
import { runAutocannon } from '../load/autocannon.js';
import type { LoadResult } from '../load/load-result.js';
import { runWrk } from '../load/wrk.js';
import { residentOf } from '../measure/health-probe.js';
import { newLatencies } from '../measure/latencies.js';
import type { Bench, Suite } from '../run/suite.js';
import { startService, type ServerProcess } from '../service/start.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

const DEPTH = 4;
const CONNECTIONS = 64;

interface Layout {
  readonly name: string;
  readonly processes: number;
  readonly workers: number;
}

/** For each number of cores: one process that fills them with workers, and as many processes without any. */
function layouts(): Layout[] {
  return Array.from({ length: availableParallelism() }, (_, at) => at + 1).flatMap((cores) => [
    { name: `p1-w${cores - 1}`, processes: 1, workers: cores - 1 },
    ...(cores === 1 ? [] : [{ name: `p${cores}-w0`, processes: cores, workers: 0 }]),
  ]);
}

/** Compares two ways to use several cores: threads and processes. */
export const processes: Suite = {
  name: 'processes',
  about: 'one process with workers against several without, each on a port of its own, at 1 to all cores',
  run: async (bench) => {
    for (let run = 1; run <= bench.plan.runs; run++) {
      for (const layout of layouts()) {
        for (const traffic of ['warm', 'cold'] as const) await measure(bench, layout, traffic);
      }
    }
    bench.recorder.notes.push(
      'processes: the service takes its port for itself, so several processes have a port each and need a balancer in ' +
        'front. Here the load is divided evenly, as a balancer does at best, and a balancer would take processor time, too.',
    );
  },
};

async function measure(
  bench: Bench,
  { name, processes, workers }: Layout,
  traffic: 'warm' | 'cold',
): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const isCold = traffic === 'cold';
  const servers: ServerProcess[] = [];
  try {
    for (let at = 0; at < processes; at++) {
      const env = isCold ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};
      servers.push(await startService({ ...env, WORKER_THREADS: String(workers) }));
    }
    for (const server of servers) await prime(bench, server, DEPTH);
    const load = async (seconds: number): Promise<LoadResult[]> => {
      const run = bestTool() === 'wrk' ? runWrk : runAutocannon;
      const workload = workloads.files(traffic, DEPTH);
      const connections = Math.ceil(CONNECTIONS / processes);
      const results = await Promise.all(
        servers.map(({ port }) => run(workload, { port, connections, seconds })),
      );
      workloads.advance(workload, Math.max(...results.map(({ requests }) => requests)) + connections);
      return results;
    };
    const id = `processes/${traffic}/${name}`;
    // Warm-up.
    for (const { wrong, firstWrong } of await load(1)) recorder.blame(id, wrong, firstWrong);
    recorder.measureFloor();
    const timeOf = () =>
      servers.reduce((sum, server) => sum + (server.processorTime()?.total ?? Number.NaN), 0);
    const before = timeOf();
    const results = await bench.watch(
      id,
      servers.map(({ pid }) => pid),
      () => load(plan.seconds),
    );
    const spent = timeOf() - before;
    const latencies = newLatencies();
    for (const result of results) {
      recorder.blame(id, result.wrong, result.firstWrong);
      latencies.add(result.latencies);
    }
    const parameters = { traffic, depth: DEPTH, connections: CONNECTIONS, processes, workers };
    const requests = results.reduce((sum, result) => sum + result.requests, 0);
    const rate = results.reduce((sum, result) => sum + result.requests / result.seconds, 0);
    recorder.record({ id: `${id}/throughput`, unit: '1/s', better: 'higher', value: rate, parameters });
    if (!Number.isNaN(spent))
      recorder.record({ id: `${id}/cpu`, unit: 'µs', better: 'lower', value: spent / requests, parameters });
    recorder.recordLatencies(id, latencies, parameters);
    const value = servers.reduce((sum, { pid }) => sum + residentOf(pid), 0);
    recorder.record({ id: `${id}/resident`, unit: 'bytes', better: 'lower', value, parameters });
    say(`${id}: ${Math.round(rate)} /s`);
  } finally {
    for (const server of servers) await server.stop();
  }
}
