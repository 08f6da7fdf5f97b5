import { measureCapacity, prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type LoadResult, type Target } from '../load/open-loop.js';
import { describeSplit, SPLIT } from '../run/programs.js';
import type { Bench, Suite } from '../run/suite.js';
import { environmentFor, ServerProcess, startService } from '../service/start.js';
import type { Workload } from '../workload/workload.js';

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
        await using service = await startService(environmentFor(traffic), { cores: SERVICE_CORES });
        for (const depth of plan.depths) {
          await prime(bench, service, depth);
          const capacity = await measureDepth(bench, service, {
            ...{ id: `latency/${traffic}/d${depth}`, depth, run },
            files: () => bench.workloads.files(traffic, depth),
          });
          if (traffic === 'warm') rate = Math.max(rate, (capacity * LOAD) / 100);
        }
      }
      await measureMachine(bench, rate, run);
    }
  },
};

interface Case {
  readonly id: string;
  readonly depth: number;
  readonly run: number;
  readonly files: () => Workload;
}

/** A server, whoever started it. */
type Measured = Pick<Target, 'port' | 'host' | 'authority'> & { readonly pid: number };

/** @returns the capacity */
export async function measureDepth(
  bench: Bench,
  server: Measured,
  { id: base, depth, run, files }: Case,
): Promise<number> {
  const { plan, recorder, say } = bench;
  recorder.measureFloor();
  let capacity = await measureCapacity(bench, files(), server);
  recorder.record(`${base}/capacity`, capacity);
  for (const load of depth === DEPTH ? plan.loads : [LOAD]) {
    const id = `${base}/at${load}`;
    const rateNow = () => (capacity * load) / 100;
    recorder.measureFloor();
    let result = await measureRate(bench, id, server, files(), rateNow(), 1000 * run + depth);
    for (let attempt = 1; !keptUp(result) && attempt < ATTEMPTS; attempt++) {
      say(`${id}, run ${run}: the service did not keep up; measuring its capacity again`);
      capacity = await measureCapacity(bench, files(), server);
      recorder.measureFloor();
      result = await measureRate(bench, id, server, files(), rateNow(), 1000 * run + depth);
    }
    recorder.record(`${id}/rate`, rateNow());
    recorder.record(`${id}/kept-up`, keptUp(result) ? 1 : 0);
    recordOpenLoop(bench, id, result);
  }
  return capacity;
}

/** Whether there was a free connection for nearly every request. If not, the service did not serve the load. */
const keptUp = ({ connectionWaits }: LoadResult) =>
  connectionWaits.getValueAtPercentile(99) <= MAX_CONNECTION_WAIT_MICROS;

/** Sends requests at a rate, and watches the machine. */
async function measureRate(
  { watch, plan, workloads, recorder }: Bench,
  id: string,
  { port, host, authority, pid }: Measured,
  workload: Workload,
  rate: number,
  seed: number,
): Promise<LoadResult> {
  const send = () =>
    runOpenLoop(workload, {
      ...{ port, host, authority, connections: OPEN_LOOP_CONNECTIONS, rate, arrivals: 'poisson', seed },
      ...{ seconds: plan.latencySeconds, warmUpSeconds: WARM_UP_SECONDS },
    });
  const result = await watch(id, pid, send, SERVICE_CORES);
  workloads.advance(workload, Math.ceil(rate * (plan.latencySeconds + WARM_UP_SECONDS)));
  recorder.blame(id, result.wrong, result.firstWrong);
  return result;
}

/** The generator against a server that does nothing, at the highest rate of the run: what of a latency is the machine's. */
async function measureMachine(bench: Bench, rate: number, run: number): Promise<void> {
  const id = 'latency/machine';
  await using server = await ServerProcess.start('service/no-op-process.js', {
    ...{ env: { DEPTH: String(DEPTH) }, cores: SERVICE_CORES },
  });
  recordOpenLoop(bench, id, await measureRate(bench, id, server, bench.workloads.marked(DEPTH), rate, run));
}

function recordOpenLoop({ recorder, say }: Bench, id: string, { latencies, sendDelays }: LoadResult): void {
  recorder.recordLatencies(id, latencies);
  recorder.record(`${id}/send-delay-p99`, sendDelays.getValueAtPercentile(99));
  const [p50, p99] = [50, 99].map((at) => latencies.getValueAtPercentile(at));
  say(`${id}: p50 ${p50} µs, p99 ${p99} µs`);
}
