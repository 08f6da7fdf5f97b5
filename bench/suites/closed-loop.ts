import { bestTool, measureClosedLoop, prime } from '../load/measure-load.js';
import { wrkVersion } from '../load/wrk.js';
import type { Plan, Tool } from '../plan.js';
import { Recorder } from '../recorder.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../suite.js';
import { COLD_CACHE_BYTES, type Traffic } from '../workload/workload.js';

interface Case {
  readonly tool: Tool;
  readonly traffic: Traffic;
  readonly depth: number;
  readonly connections: number;
}

/** Where the axes of the cross meet. */
const USUAL = { depth: 4, connections: 32 } as const;

/** The running service under closed loops. */
export const closedLoop: Suite = {
  name: 'closed-loop',
  about: 'throughput, latency and processor time of the service at 1 to 512 connections',
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    if (wrkVersion() === null)
      recorder.skip('closed-loop/wrk', 'wrk is not installed; autocannon takes its place');
    const cases = casesOf(plan);
    const services = await startServices(cases);
    try {
      for (const depth of new Set(cases.map((one) => one.depth))) {
        for (const [temperature, server] of services) {
          await prime(bench, server, depth, temperature === 'cold');
        }
      }
      // Rounds over all cases, not all runs of one case: so the runs of a figure span the whole time, and what the
      // machine does meanwhile shows in their spread.
      for (let round = 0; round <= plan.runs; round++) {
        for (const one of cases) {
          const isWarmUp = round === 0;
          if (isWarmUp && !needsWarmUp(one, cases)) continue;
          const server = services.get(temperatureOf(one)) as ServerProcess;
          if (!isWarmUp) recorder.measureFloor();
          const { tool, traffic, depth, connections } = one;
          const name = `${tool}/${traffic}/d${depth}/c${connections}`;
          const { requests, seconds } = await measureClosedLoop(isWarmUp ? discarding(bench) : bench, {
            id: `closed-loop/${name}`,
            parameters: { tool, traffic, depth, connections },
            ...{ server, hasMetrics: true, tool, connections },
            seconds: isWarmUp ? 1 : plan.seconds,
            workload: workloads.files(traffic, depth),
          });
          const which = isWarmUp ? 'warm-up' : `run ${round} of ${plan.runs}`;
          bench.say(`closed-loop · ${name}, ${which}: ${Math.round(requests / seconds)} /s`);
        }
      }
    } finally {
      for (const server of services.values()) await server.stop();
    }
  },
};

const temperatureOf = ({ traffic }: Case) => (traffic === 'cold' || traffic === 'mixed' ? 'cold' : 'warm');

async function startServices(cases: readonly Case[]): Promise<Map<'warm' | 'cold', ServerProcess>> {
  const services = new Map<'warm' | 'cold', ServerProcess>();
  for (const temperature of new Set(cases.map(temperatureOf))) {
    const env = temperature === 'cold' ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};
    services.set(temperature, await startService(env));
  }
  return services;
}

/** One case for each service: the first. */
function needsWarmUp(one: Case, cases: readonly Case[]): boolean {
  return cases.find((other) => temperatureOf(other) === temperatureOf(one)) === one;
}

function casesOf({ isGrid, mode, depths, connections, traffics }: Plan): Case[] {
  const tool = bestTool();
  const usual = connections.includes(USUAL.connections)
    ? USUAL.connections
    : (connections[0] ?? USUAL.connections);
  const usualDepth = depths.includes(USUAL.depth) ? USUAL.depth : (depths[0] ?? USUAL.depth);
  const cases: Case[] = [];
  for (const traffic of traffics) {
    for (const depth of depths) {
      for (const count of connections) {
        const isOnCross =
          count === usual || (traffic === 'warm' && (depth === usualDepth || count === 1 || count === 128));
        if (isGrid || isOnCross) cases.push({ tool, traffic, depth, connections: count });
      }
    }
  }
  if (isGrid || mode === 'smoke') return cases;
  for (const traffic of ['forged', 'malformed'] as const) {
    cases.push({ tool, traffic, depth: usualDepth, connections: usual });
  }
  if (tool === 'wrk' && mode === 'full') {
    for (const count of [1, 32, 512]) {
      cases.push({ tool: 'autocannon', traffic: 'warm', depth: usualDepth, connections: count });
    }
  }
  return cases;
}

/** The same bench, with a recorder that is thrown away but for wrong answers. */
function discarding(bench: Bench): Bench {
  const recorder = new Recorder(0);
  recorder.blame = (where, count, first) => bench.recorder.blame(where, count, first);
  return { ...bench, recorder };
}
