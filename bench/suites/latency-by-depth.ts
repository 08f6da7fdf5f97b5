import { measureCapacity } from '../load/capacity.js';
import { prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop } from '../load/open-loop.js';
import { PERCENTILES } from '../measure/latencies.js';
import { describeSplit, SPLIT } from '../run/cores.js';
import type { Parameters } from '../run/results.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

/** This point is measured with even and with random arrivals, to show what the clustering of random arrivals costs. */
const EVEN = { traffic: 'warm', depth: 4, load: 50 } as const;

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
        const service = await startService(env, { cores: SPLIT?.service ?? null });
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
  recorder.measureFloor();
  const capacity = await measureCapacity(workloads, () => workloads.files(traffic, depth), target);
  const base = `latency/${traffic}/d${depth}`;
  recorder.record({
    ...{ id: `${base}/capacity`, unit: '1/s', better: 'higher', value: capacity },
    parameters: { traffic, depth },
  });
  for (const load of plan.latencyLoads) {
    const rate = (capacity * load) / 100;
    const isEven = traffic === EVEN.traffic && depth === EVEN.depth && load === EVEN.load;
    for (const arrivals of isEven ? (['poisson', 'even'] as const) : (['poisson'] as const)) {
      const id = `${base}/at${load}${arrivals === 'even' ? '-even' : ''}`;
      const parameters: Parameters = { traffic, depth, load, arrivals };
      recorder.measureFloor();
      const workload = workloads.files(traffic, depth);
      const result = await bench.watch(id, server.pid, () =>
        runOpenLoop(workload, {
          ...{
            ...target,
            rate,
            arrivals,
            seed: 1000 * run + depth,
            seconds: plan.latencySeconds,
            warmUpSeconds: 0.5,
          },
        }),
      );
      workloads.advance(workload, Math.ceil(rate * (plan.latencySeconds + 0.5)));
      recorder.blame(id, result.wrong, result.firstWrong);
      recorder.record({ id: `${id}/rate`, unit: '1/s', better: 'neither', value: rate, parameters });
      recorder.recordLatencies(id, result.latencies, parameters);
      for (const [name, delays] of [
        ['send-delay-p99', result.sendDelays],
        ['connection-wait-p99', result.connectionWaits],
      ] as const) {
        const value = delays.getValueAtPercentile(99);
        recorder.record({ id: `${id}/${name}`, unit: 'µs', better: 'neither', value, parameters });
      }
      const [p50, , p99] = PERCENTILES.map((at) => result.latencies.getValueAtPercentile(at));
      say(`${id}, run ${run}: ${Math.round(rate)}/s, p50 ${p50 ?? 0} µs, p99 ${p99 ?? 0} µs`);
    }
  }
}
