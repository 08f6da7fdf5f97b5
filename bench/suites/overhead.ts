import { bestTool, measureClosedLoop } from '../load/measure-load.js';
import { ServerProcess } from '../service/start.js';
import type { Suite } from '../suite.js';

/** What the suite itself costs: no throughput above this can be measured, and no lower latency. */
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
      } finally {
        await server.stop();
      }
    }
  },
};
