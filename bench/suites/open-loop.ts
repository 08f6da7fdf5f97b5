import { measureClosedLoop, bestTool, prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop } from '../load/open-loop.js';
import { describeSplit, SPLIT } from '../run/cores.js';
import { startService } from '../service/start.js';
import type { Suite } from '../run/suite.js';

/** Measures latency under a load that does not wait for answers. */
export const openLoop: Suite = {
  name: 'open-loop',
  about: 'latency at a constant rate, from the intended send time, at 25 to 100 % of the closed-loop maximum',
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    recorder.notes.push(`open-loop: ${describeSplit()}`);
    const service = await startService({}, { cores: SPLIT?.service ?? null });
    try {
      for (const depth of plan.openLoopDepths) {
        await prime(bench, service, depth);
        const tool = bestTool();
        const name = `warm/d${depth}`;
        recorder.measureFloor();
        const highest = await measureClosedLoop(bench, {
          id: `open-loop/${name}/maximum`,
          parameters: { traffic: 'warm', depth, connections: OPEN_LOOP_CONNECTIONS, tool },
          ...{ server: service, hasMetrics: true, tool, connections: OPEN_LOOP_CONNECTIONS },
          seconds: Math.max(2, plan.seconds),
          workload: workloads.files('warm', depth),
        });
        const maximum = highest.requests / highest.seconds;
        for (const load of plan.openLoopLoads) {
          recorder.measureFloor();
          const rate = Math.round((maximum * load) / 100);
          const id = `open-loop/${name}/at${load}`;
          const parameters = { traffic: 'warm', depth, load, rate };
          const result = await bench.watch(id, service.pid, () =>
            runOpenLoop(workloads.files('warm', depth), {
              ...{
                port: service.port,
                connections: OPEN_LOOP_CONNECTIONS,
                seconds: plan.openLoopSeconds,
                rate,
              },
            }),
          );
          recorder.blame(id, result.wrong, result.firstWrong);
          recorder.record({ id: `${id}/rate`, unit: '1/s', better: 'neither', value: rate, parameters });
          recorder.recordLatencies(id, result.latencies, parameters);
          const late = result.sendDelays.getValueAtPercentile(50);
          recorder.record({
            id: `${id}/send-delay-p50`,
            unit: 'µs',
            better: 'neither',
            value: late,
            parameters,
          });
          const p99 = result.latencies.getValueAtPercentile(99);
          bench.say(`open-loop · depth ${depth}, ${load} % of ${Math.round(maximum)} /s: p99 ${p99} µs`);
        }
      }
    } finally {
      await service.stop();
    }
  },
};
