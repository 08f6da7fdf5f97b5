import { checkAnswers, measureCapacity, prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type LoadResult, type Target } from '../load/open-loop.js';
import { describeSplit, SPLIT } from '../run/programs.js';
import type { Bench, Suite } from '../run/suite.js';
import { environmentFor, ServerProcess, startService } from '../service/start.js';
import type { Workload } from '../workload/workload.js';

const SERVICE_CORES = SPLIT?.service ?? null;
// A machine may become slower by half after its capacity was measured. Then 75 % of that is more than it can serve, and the
// point is measured again with a new capacity.
const ATTEMPTS = 3;
const MAX_CONNECTION_WAIT_MICROS = 10_000;
/** Of the calls that a server which does nothing gets, and that are the first after a start. */
const DEPTH = 4;

/** The generator against a server that does nothing, at the highest rate of the run: what of a latency is the machine's. */
const MACHINE = 'latency/machine';

/** Measures how long a caller waits, by load and by the length of the chain. */
export const latency: Suite = {
  name: 'latency',
  about: 'p50 to the worst at a rate, open loop; the machine alone; the first answer after a start',
  isAboutLatency: true,
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    recorder.notes.push(`latency: ${describeSplit()}`);
    let rate = 0;
    for (const traffic of ['warm', 'cold'] as const) {
      const call = workloads.warm(DEPTH).slice(0, 1);
      const before = performance.now();
      await using service = await startService(environmentFor(traffic), { cores: SERVICE_CORES });
      const { wrong, firstWrong } = await checkAnswers(service.port, call);
      recorder.record('latency/first-answer', 1000 * (performance.now() - before));
      recorder.blame('the first answer', wrong, firstWrong);
      for (const depth of plan.coreDepths) {
        await prime(bench, service, depth);
        const files = () => workloads.files(traffic, depth);
        const capacity = await measureDepth(bench, service, `latency/${traffic}/d${depth}`, depth, files);
        if (traffic === 'warm') rate = Math.max(rate, capacity / 2);
      }
    }
    await using nothing = await ServerProcess.start('service/ladder-process.js', {
      env: { RUNG: 'no-op', SERVER_IDENTITY: 'any', WORKER_THREADS: '0' },
      cores: SERVICE_CORES,
    });
    const marked = { ...workloads.marked(DEPTH), path: '/rung' };
    await bench.undisturbed(async () => {
      recordOpenLoop(bench, MACHINE, await measureRate(bench, MACHINE, nothing, marked, rate, bench.run));
    });
  },
};

/** A server, whoever started it. */
type Measured = Pick<Target, 'port' | 'host' | 'authority'> & { readonly pid: number };

/** @returns the capacity */
export async function measureDepth(
  bench: Bench,
  server: Measured,
  base: string,
  depth: number,
  files: () => Workload,
): Promise<number> {
  const { plan, recorder, run, say } = bench;
  recorder.measureFloor();
  let capacity = await measureCapacity(bench, files(), server);
  recorder.record(`${base}/capacity`, capacity);
  for (const load of plan.loads) {
    const id = `${base}/at${load}`;
    const measure = () => {
      recorder.measureFloor();
      return measureRate(bench, id, server, files(), (capacity * load) / 100, 1000 * run + depth);
    };
    await bench.undisturbed(async () => {
      let result = await measure();
      for (let attempt = 1; !keptUp(result) && attempt < ATTEMPTS; attempt++) {
        say(`${id}, run ${run}: the service did not keep up; measuring its capacity again`);
        capacity = await measureCapacity(bench, files(), server);
        result = await measure();
      }
      recorder.record(`${id}/rate`, (capacity * load) / 100);
      recorder.record(`${id}/kept-up`, keptUp(result) ? 1 : 0);
      recordOpenLoop(bench, id, result);
    });
  }
  return capacity;
}

/** Whether there was a free connection for nearly every request. If not, the service did not serve the load. */
const keptUp = ({ connectionWaits }: LoadResult) =>
  connectionWaits.getValueAtPercentile(99) <= MAX_CONNECTION_WAIT_MICROS;

/** Sends requests at a rate, and watches the machine. */
export async function measureRate(
  { watch, plan, workloads, recorder }: Bench,
  id: string,
  { port, host, authority, pid }: Measured,
  workload: Workload,
  rate: number,
  seed: number,
): Promise<LoadResult> {
  const seconds = plan.latencySeconds;
  const warmUpSeconds = Math.max(0.5, seconds / 6);
  const send = () =>
    runOpenLoop(workload, {
      ...{ port, host, authority, connections: OPEN_LOOP_CONNECTIONS, rate, arrivals: 'poisson', seed },
      ...{ seconds, warmUpSeconds },
    });
  const result = await watch(id, pid, send);
  workloads.advance(workload, Math.ceil(rate * (seconds + warmUpSeconds)));
  recorder.blame(id, result.wrong, result.firstWrong);
  return result;
}

export function recordOpenLoop({ recorder, say }: Bench, id: string, result: LoadResult): void {
  const { latencies, sendDelays } = result;
  recorder.recordLatencies(id, latencies);
  recorder.keepLatencies(id, latencies);
  recorder.record(`${id}/send-delay-p99`, sendDelays.getValueAtPercentile(99));
  const [p50, p99] = [50, 99].map((at) => latencies.getValueAtPercentile(at));
  say(`${id}: p50 ${p50} µs, p99 ${p99} µs`);
}
