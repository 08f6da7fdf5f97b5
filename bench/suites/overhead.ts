import { bestTool, measureClosedLoop } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop } from '../load/open-loop.js';
import { ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';

/** Measures what the suite itself costs: no higher throughput and no lower latency can be measured. */
export const overhead: Suite = {
  name: 'overhead',
  about: 'the load generator against a uWebSockets.js route that reads the body and answers',
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    const tool = bestTool();
    for (const depth of plan.mode === 'full' ? [1, 4, 16] : [4]) {
      const server = await ServerProcess.start('service/no-op-process.js', { env: { DEPTH: String(depth) } });
      try {
        for (let run = 1; run <= Math.min(2, plan.runs); run++) {
          recorder.measureFloor();
          const { requests, seconds } = await measureClosedLoop(bench, {
            id: `overhead/${tool}/d${depth}/c32`,
            parameters: { tool, depth, connections: 32 },
            ...{ server, hasMetrics: false, tool, connections: 32, seconds: plan.seconds },
            workload: workloads.files('warm', depth),
          });
          bench.say(
            `overhead · ${tool}, depth ${depth}, no verification: ${Math.round(requests / seconds)} /s`,
          );
        }
        await measureOpenLoop(bench, server, depth);
      } finally {
        await server.stop();
      }
    }
  },
};

const OPEN_LOOP_RATE = 5_000;

/** The same for the open-loop generator, at a rate that the service could serve too. */
async function measureOpenLoop({ plan, recorder, workloads }: Bench, { port }: ServerProcess, depth: number) {
  recorder.measureFloor();
  // The no-op server gives every request the same answer.
  const workload = { ...workloads.files('warm', depth), answersFile: '' };
  const { latencies, sendDelays, wrong, firstWrong } = await runOpenLoop(workload, {
    ...{ port, connections: OPEN_LOOP_CONNECTIONS, seconds: plan.seconds, rate: OPEN_LOOP_RATE },
  });
  const id = `overhead/open-loop/d${depth}`;
  const parameters = { tool: 'open-loop', depth, rate: OPEN_LOOP_RATE };
  recorder.blame(id, wrong, firstWrong);
  recorder.recordLatencies(id, latencies, parameters);
  const value = sendDelays.getValueAtPercentile(50);
  recorder.record({ id: `${id}/send-delay-p50`, unit: 'µs', better: 'neither', value, parameters });
}
