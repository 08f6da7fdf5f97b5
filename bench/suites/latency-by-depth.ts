import { measureCapacity } from '../load/capacity.js';
import { prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type OpenLoopResult } from '../load/open-loop.js';
import { PERCENTILES } from '../measure/latencies.js';
import { describeSplit, SPLIT } from '../run/cores.js';
import type { Parameters } from '../run/results.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

/** This point is measured with even and with random arrivals, to show what the clustering of random arrivals costs. */
const EVEN = { traffic: 'warm', depth: 4, load: 50 } as const;

const SERVICE_CORES = SPLIT?.service ?? null;
const WARM_UP_SECONDS = 0.5;
// A machine may become slower by half after its capacity was measured. Then 75 % of that is more than it can serve, and the
// point is measured again with a new capacity.
const ATTEMPTS = 3;
const MAX_CONNECTION_WAIT_MICROS = 10_000;

/** Measures how long a caller waits, by the length of the chain. */
export const latencyByDepth: Suite = {
  name: 'latency',
  about: 'p50 to p99.9 by chain depth, warm and cold, at 25, 50 and 75 % of the capacity, open loop',
  run: async (bench) => {
    const { plan } = bench;
    bench.recorder.notes.push(`latency: ${describeSplit()}`);
    // Each round measures everything once, with new processes, so that the runs of a point are spread over the whole
    // time.
    for (let run = 1; run <= plan.latencyRuns; run++) {
      for (const traffic of ['warm', 'cold'] as const) {
        const isCold = traffic === 'cold';
        const env = isCold ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};
        const service = await startService(env, { cores: SERVICE_CORES });
        try {
          for (const depth of plan.depths) {
            await prime(bench, service, depth);
            await measureDepth(bench, service, { traffic, depth, run });
          }
        } finally {
          await service.stop();
        }
      }
    }
  },
};

async function measureDepth(
  bench: Bench,
  server: ServerProcess,
  { traffic, depth, run }: { traffic: 'warm' | 'cold'; depth: number; run: number },
): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const target = { port: server.port, connections: OPEN_LOOP_CONNECTIONS };
  const capacityOf = () => measureCapacity(workloads, () => workloads.files(traffic, depth), target);
  recorder.measureFloor();
  let capacity = await capacityOf();
  const base = `latency/${traffic}/d${depth}`;
  recorder.record({
    ...{ id: `${base}/capacity`, unit: '1/s', better: 'higher', value: capacity },
    parameters: { traffic, depth },
  });
  for (const load of plan.latencyLoads) {
    const isEven = traffic === EVEN.traffic && depth === EVEN.depth && load === EVEN.load;
    for (const arrivals of isEven ? (['poisson', 'even'] as const) : (['poisson'] as const)) {
      const id = `${base}/at${load}${arrivals === 'even' ? '-even' : ''}`;
      const parameters: Parameters = { traffic, depth, load, arrivals };
      const measure = async () => {
        const rate = (capacity * load) / 100;
        recorder.measureFloor();
        const workload = workloads.files(traffic, depth);
        const result = await bench.watch(
          id,
          server.pid,
          () =>
            runOpenLoop(workload, {
              ...{ ...target, rate, arrivals, seed: 1000 * run + depth },
              ...{ seconds: plan.latencySeconds, warmUpSeconds: WARM_UP_SECONDS },
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
      const record = (name: string, unit: string, value: number) =>
        recorder.record({ id: `${id}/${name}`, unit, better: 'neither', value, parameters });
      record('rate', '1/s', result.rate);
      recorder.recordLatencies(id, result.latencies, parameters);
      record('send-delay-p99', 'µs', result.sendDelays.getValueAtPercentile(99));
      record('connection-wait-p99', 'µs', result.connectionWaits.getValueAtPercentile(99));
      record('kept-up', 'ratio', keptUp(result) ? 1 : 0);
      const [p50, , p99] = PERCENTILES.map((at) => result.latencies.getValueAtPercentile(at));
      say(`${id}, run ${run}: ${Math.round(result.rate)}/s, p50 ${p50 ?? 0} µs, p99 ${p99 ?? 0} µs`);
    }
  }
}

/** Whether there was a free connection for nearly every request. If not, the service did not serve the load. */
const keptUp = ({ connectionWaits }: OpenLoopResult) =>
  connectionWaits.getValueAtPercentile(99) <= MAX_CONNECTION_WAIT_MICROS;
