import { measureClosedLoop, prime } from '../load/measure-load.js';
import { processorTimeOf } from '../measure/processor-time.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';

const CONNECTIONS = 32;
const WARM_UP_SECONDS = 0.5;

/** Each does what those before it do, and one thing more; the last is the service. */
const RUNGS = ['no-op', 'body', 'parse', 'invocation', 'verification', 'judge', 'product'] as const;
type Rung = (typeof RUNGS)[number];

/** Measures what each part of a warm call costs, and what the service adds to the one verification that there must be. */
export const ladder: Suite = {
  name: 'ladder',
  about: 'processor time of a warm call: of a front end that does nothing, one verification, the product',
  run: async (bench) => {
    const { plan, recorder, run, say } = bench;
    if (Number.isNaN(processorTimeOf(process.pid))) {
      recorder.skip('ladder', 'the operating system does not tell processor times');
      return;
    }
    const servers = new Map<Rung, ServerProcess>();
    try {
      for (const rung of RUNGS) {
        const server = await start(rung);
        servers.set(rung, server);
        for (const depth of plan.coreDepths) await prime(bench, server, depth);
        // A new process: V8 compiles.
        await measure(bench, server, rung, plan.coreDepths[0] ?? 1, WARM_UP_SECONDS);
      }
      for (const depth of plan.coreDepths) {
        const floors: Partial<Record<Rung, number>> = {};
        // The speed of the machine changes: what is compared runs next to each other, in both orders.
        for (const rung of run % 2 === 0 ? RUNGS : RUNGS.toReversed()) {
          const cpu = await measure(bench, servers.get(rung) as ServerProcess, rung, depth, plan.seconds);
          recorder.record(`ladder/${rung}/d${depth}/cpu`, cpu);
          floors[rung] = cpu / recorder.floor;
        }
        const added = (floors.product ?? NaN) - (floors.verification ?? NaN);
        recorder.record(`ladder/over-verification/d${depth}/cpu`, added * recorder.floor);
        say(
          `ladder · depth ${depth}: the product takes ${added.toFixed(2)} floors more than one verification`,
        );
      }
    } finally {
      for (const server of servers.values()) await server[Symbol.asyncDispose]();
    }
  },
};

/** Those below `judge` verify on the main thread, if at all: the least that a verification can cost. */
function start(rung: Rung): Promise<ServerProcess> {
  if (rung === 'product') return startService();
  const env = { SERVER_IDENTITY: 'any', FRONT_END: process.env['FRONT_END'] ?? '' };
  const below = rung === 'judge' ? {} : { RUNG: rung, WORKER_THREADS: '0' };
  return ServerProcess.start('service/ladder-process.js', { env: { ...env, ...below } });
}

/** @returns the processor time of a call in µs */
async function measure(bench: Bench, server: ServerProcess, rung: Rung, depth: number, seconds: number) {
  const { recorder, workloads } = bench;
  const judged = workloads.files('warm', depth);
  const answered = { ...workloads.marked(depth), path: '/rung', marker: '"valid":true,' };
  const { cpu } = await measureClosedLoop(
    // Nobody asks a rung for its latencies.
    { ...bench, recorder: recorder.discarding() },
    {
      ...{ id: `ladder/${rung}/d${depth}`, server, hasMetrics: false, connections: CONNECTIONS, seconds },
      workload: rung === 'product' || rung === 'judge' ? judged : answered,
    },
  );
  return cpu;
}
