import { availableParallelism } from 'node:os';
import { sum } from 'simple-statistics';
import { measureClosedLoop, prime } from '../load/measure-load.js';
import { residentOf } from '../measure/processor-time.js';
import type { Bench, Suite } from '../run/suite.js';
import type { Traffic } from '../workload/workload.js';
import { environmentFor, startService } from '../service/start.js';

const DEPTH = 4;
const CONNECTIONS = 128;

/** For each number of cores: one process that fills them with workers, and as many processes without any. */
const LAYOUTS = Array.from({ length: availableParallelism() }, (_, at) => at + 1).flatMap((cores) => [
  { processes: 1, workers: cores - 1 },
  ...(cores === 1 ? [] : [{ processes: cores, workers: 0 }]),
]);

/** Compares two ways to use several cores: threads and processes. */
export const processes: Suite = {
  name: 'processes',
  about: 'one process with workers against several without on the same port, at 1 to all cores',
  run: async (bench) => {
    for (let run = 1; run <= bench.plan.runs; run++)
      for (const layout of LAYOUTS)
        for (const traffic of ['warm', 'cold'] as const) await measure(bench, layout, traffic);
  },
};

async function measure(bench: Bench, layout: (typeof LAYOUTS)[number], traffic: Traffic): Promise<void> {
  const { plan, recorder, workloads } = bench;
  const id = `processes/${traffic}/p${layout.processes}-w${layout.workers}`;
  await using server = await startService({
    ...environmentFor(traffic),
    // Several processes would need Redis for a common record of replays.
    ...{ GATE_REPLAY: 'off', PROCESSES: String(layout.processes), WORKER_THREADS: String(layout.workers) },
  });
  await prime(bench, server, DEPTH);
  const loop = { id, server, hasMetrics: true, connections: CONNECTIONS };
  const run = (on: Bench, seconds: number) =>
    measureClosedLoop(on, { ...loop, seconds, workload: workloads.files(traffic, DEPTH) });
  // A new process: V8 compiles in the first second.
  await run({ ...bench, recorder: recorder.discarding() }, 1);
  recorder.measureFloor();
  await run(bench, plan.seconds);
  recorder.record(`${id}/resident`, sum(server.pids.map(residentOf)));
}
