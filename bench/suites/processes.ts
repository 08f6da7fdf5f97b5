import { availableParallelism } from 'node:os';
import { prime } from '../load/measure-load.js';
import { runClosedLoop } from '../load/open-loop.js';
import { residentOf } from '../measure/processor-time.js';
import { newLatencies } from '../measure/statistics.js';
import type { Bench, Suite } from '../run/suite.js';
import { startService, type ServerProcess } from '../service/start.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

const DEPTH = 4;
const CONNECTIONS = 128;

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
      'processes: several processes have a port each here, and the load is divided evenly, as a balancer does at best.',
    );
  },
};

async function measure(bench: Bench, layout: Layout, traffic: 'warm' | 'cold'): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const { name, workers } = layout;
  const env = traffic === 'cold' ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};
  const servers: ServerProcess[] = [];
  try {
    for (let at = 0; at < layout.processes; at++)
      servers.push(await startService({ ...env, WORKER_THREADS: String(workers) }));
    for (const server of servers) await prime(bench, server, DEPTH);
    const load = async (seconds: number) => {
      const workload = workloads.files(traffic, DEPTH);
      const connections = Math.ceil(CONNECTIONS / layout.processes);
      const results = await Promise.all(
        servers.map(({ port }) => runClosedLoop(workload, { port, connections, seconds })),
      );
      workloads.advance(workload, 2 * Math.max(...results.map(({ requests }) => requests)));
      for (const { wrong, firstWrong } of results) recorder.blame(id, wrong, firstWrong);
      return results;
    };
    const id = `processes/${traffic}/${name}`;
    // Warm-up.
    await load(1);
    recorder.measureFloor();
    const timeOf = () => servers.reduce((sum, server) => sum + (server.processorTime() ?? Number.NaN), 0);
    const before = timeOf();
    const pids = servers.map(({ pid }) => pid);
    const results = await bench.watch(id, pids, () => load(plan.seconds));
    const spent = timeOf() - before;
    const latencies = newLatencies();
    for (const result of results) latencies.add(result.latencies);
    const parameters = { traffic, depth: DEPTH, connections: CONNECTIONS, ...layout };
    const requests = results.reduce((sum, result) => sum + result.requests, 0);
    const rate = results.reduce((sum, result) => sum + result.requests / result.seconds, 0);
    recorder.record(`${id}/throughput`, rate, parameters);
    if (!Number.isNaN(spent)) recorder.record(`${id}/cpu`, spent / requests, parameters);
    recorder.recordLatencies(id, latencies, parameters);
    const resident = pids.reduce((sum, pid) => sum + residentOf(pid), 0);
    recorder.record(`${id}/resident`, resident, parameters, ['bytes', 'lower']);
    say(`${id}: ${Math.round(rate)} /s`);
  } finally {
    for (const server of servers) await server.stop();
  }
}
