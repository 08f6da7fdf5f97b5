import { measureCapacity, prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type OpenLoopResult } from '../load/open-loop.js';
import { describeSplit, SPLIT } from '../run/cores.js';
import type { Parameters } from '../run/results.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

/** All depths are measured at half the capacity; other loads only at this depth. */
const LOAD = 50;
const DEPTH = 4;

const SERVICE_CORES = SPLIT?.service ?? null;
const WARM_UP_SECONDS = 0.5;
// A machine may become slower by half after its capacity was measured. Then 75 % of that is more than it can serve, and the
// point is measured again with a new capacity.
const ATTEMPTS = 3;
const MAX_CONNECTION_WAIT_MICROS = 10_000;

/** Measures how long a caller waits, by the length of the chain and by load. */
export const latency: Suite = {
  name: 'latency',
  about:
    'p50 to p99.9 by chain depth at half the capacity and by load, warm and cold, open loop; the machine alone',
  run: async (bench) => {
    const { plan } = bench;
    bench.recorder.notes.push(`latency: ${describeSplit()}`);
    // Each round measures everything once, with new processes, so that the runs of a point are spread over the whole
    // time.
    for (let run = 1; run <= plan.runs; run++) {
      let rate = 0;
      for (const traffic of ['warm', 'cold'] as const) {
        const env = traffic === 'cold' ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};
        const service = await startService(env, { cores: SERVICE_CORES });
        try {
          for (const depth of plan.depths) {
            await prime(bench, service, depth);
            const capacity = await measureDepth(bench, service, { traffic, depth, run });
            if (traffic === 'warm') rate = Math.max(rate, (capacity * LOAD) / 100);
          }
        } finally {
          await service.stop();
        }
      }
      await measureMachine(bench, rate, run);
    }
  },
};

interface Case {
  readonly traffic: 'warm' | 'cold';
  readonly depth: number;
  readonly run: number;
}

/** @returns the capacity */
async function measureDepth(
  bench: Bench,
  server: ServerProcess,
  { traffic, depth, run }: Case,
): Promise<number> {
  const { plan, recorder, workloads, say } = bench;
  const capacityOf = () => measureCapacity(bench, workloads.files(traffic, depth), server);
  recorder.measureFloor();
  let capacity = await capacityOf();
  const base = `latency/${traffic}/d${depth}`;
  recorder.record(`${base}/capacity`, capacity, { traffic, depth });
  for (const load of depth === DEPTH ? plan.loads : [LOAD]) {
    const id = `${base}/at${load}`;
    const parameters: Parameters = { traffic, depth, load };
    const measure = async () => {
      const rate = (capacity * load) / 100;
      recorder.measureFloor();
      const workload = workloads.files(traffic, depth);
      const result = await bench.watch(
        id,
        server.pids,
        () =>
          runOpenLoop(workload, {
            ...{ port: server.port, connections: OPEN_LOOP_CONNECTIONS, rate, arrivals: 'poisson' },
            ...{ seed: 1000 * run + depth, seconds: plan.latencySeconds, warmUpSeconds: WARM_UP_SECONDS },
          }),
        SERVICE_CORES,
      );
      workloads.advance(workload, Math.ceil(rate * (plan.latencySeconds + WARM_UP_SECONDS)));
      recorder.blame(id, result.wrong, result.firstWrong);
      return { ...result, rate };
    };
    let result = await measure();
    for (let attempt = 1; !keptUp(result) && attempt < ATTEMPTS; attempt++) {
      say(`${id}, run ${run}: the service did not keep up; measuring its capacity again`);
      capacity = await capacityOf();
      result = await measure();
    }
    recorder.record(`${id}/rate`, result.rate, parameters, ['1/s', 'neither']);
    recorder.record(`${id}/kept-up`, keptUp(result) ? 1 : 0, parameters, ['ratio', 'neither']);
    recordOpenLoop(bench, id, result, parameters);
  }
  return capacity;
}

/** Whether there was a free connection for nearly every request. If not, the service did not serve the load. */
const keptUp = ({ connectionWaits }: OpenLoopResult) =>
  connectionWaits.getValueAtPercentile(99) <= MAX_CONNECTION_WAIT_MICROS;

/** The generator against a server that does nothing, at the highest rate of the run: what of a latency is the machine's. */
async function measureMachine(bench: Bench, rate: number, run: number): Promise<void> {
  const { plan, recorder, workloads } = bench;
  const id = 'latency/machine';
  const server = await ServerProcess.start('service/no-op-process.js', {
    ...{ env: { DEPTH: String(DEPTH) }, cores: SERVICE_CORES },
  });
  try {
    // The no-op server gives every request the same answer.
    const workload = { ...workloads.files('warm', DEPTH), answersFile: '' };
    const measure = () =>
      runOpenLoop(workload, {
        ...{ port: server.port, connections: OPEN_LOOP_CONNECTIONS, rate, arrivals: 'poisson', seed: run },
        ...{ seconds: plan.latencySeconds, warmUpSeconds: WARM_UP_SECONDS },
      });
    const result = await bench.watch(id, server.pids, measure, SERVICE_CORES);
    recorder.blame(id, result.wrong, result.firstWrong);
    recordOpenLoop(bench, id, result, { rate });
  } finally {
    await server.stop();
  }
}

function recordOpenLoop(
  { recorder, say }: Bench,
  id: string,
  { latencies, sendDelays }: OpenLoopResult,
  parameters: Parameters,
): void {
  recorder.recordLatencies(id, latencies, parameters);
  const late = sendDelays.getValueAtPercentile(99);
  recorder.record(`${id}/send-delay-p99`, late, parameters, ['µs', 'neither']);
  const [p50, p99] = [50, 99].map((at) => latencies.getValueAtPercentile(at));
  say(`${id}: p50 ${p50} µs, p99 ${p99} µs`);
}
