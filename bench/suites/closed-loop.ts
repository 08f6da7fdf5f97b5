import type { LoadResult } from '../load/load-result.js';
import { bestTool, measureClosedLoop, prime } from '../load/measure-load.js';
import { wrkVersion } from '../load/wrk.js';
import type { Plan, Tool } from '../run/plan.js';
import { discarding } from '../run/discarding.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { COLD_CACHE_BYTES, type Traffic } from '../workload/workload.js';

interface Case {
  readonly tool: Tool;
  readonly traffic: Traffic;
  readonly depth: number;
  readonly connections: number;
}

/** The usual case. Other cases differ from it in one parameter. */
const USUAL = { depth: 4, connections: 32 } as const;

/** Measures the running service under closed loops. */
export const closedLoop: Suite = {
  name: 'closed-loop',
  about: 'throughput, latency and processor time of the service at 1 to 512 connections',
  run: async (bench) => {
    const { plan, recorder } = bench;
    if (wrkVersion() === null)
      recorder.skip('closed-loop/wrk', 'wrk is not installed; autocannon takes its place');
    const cases = casesOf(plan);
    // Each round runs all cases once, with new processes. So the runs of a figure are spread over the whole time and
    // over several compilations of the code, and their spread includes the effects of both.
    for (let round = 1; round <= plan.runs; round++) {
      const services = await startServices(bench, cases);
      try {
        for (const one of cases) {
          const server = services.get(temperatureOf(one)) as ServerProcess;
          recorder.measureFloor();
          const { requests, seconds } = await measureCase(bench, one, server, plan.seconds);
          bench.say(
            `closed-loop · ${nameOf(one)}, run ${round} of ${plan.runs}: ${Math.round(requests / seconds)} /s`,
          );
        }
      } finally {
        for (const server of services.values()) await server.stop();
      }
    }
  },
};

const nameOf = ({ tool, traffic, depth, connections }: Case) =>
  `${tool}/${traffic}/d${depth}/c${connections}`;

function measureCase(bench: Bench, one: Case, server: ServerProcess, seconds: number): Promise<LoadResult> {
  const { tool, traffic, depth, connections } = one;
  return measureClosedLoop(bench, {
    id: `closed-loop/${nameOf(one)}`,
    parameters: { tool, traffic, depth, connections },
    ...{ server, hasMetrics: true, tool, connections, seconds },
    workload: bench.workloads.files(traffic, depth),
  });
}

const temperatureOf = ({ traffic }: Case) => (traffic === 'cold' || traffic === 'mixed' ? 'cold' : 'warm');

/** One service for warm and one for cold traffic. Both are checked and warmed up first. */
async function startServices(bench: Bench, cases: readonly Case[]): Promise<Map<string, ServerProcess>> {
  const services = new Map<string, ServerProcess>();
  for (const temperature of new Set(cases.map(temperatureOf))) {
    const isCold = temperature === 'cold';
    const server = await startService(isCold ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {});
    services.set(temperature, server);
    const own = cases.filter((one) => temperatureOf(one) === temperature);
    for (const depth of new Set(own.map((one) => one.depth))) await prime(bench, server, depth);
    await measureCase(discarding(bench), own[0] as Case, server, 1);
  }
  return services;
}

function casesOf({ isGrid, mode, depths, coreDepths, connections, traffics }: Plan): Case[] {
  const isCore = (depth: number) => coreDepths.includes(depth);
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
          traffic === 'warm'
            ? count === usual || depth === usualDepth || ((count === 1 || count === 128) && isCore(depth))
            : count === usual && (traffic !== 'mixed' || isCore(depth));
        if (isGrid || isOnCross) cases.push({ tool, traffic, depth, connections: count });
      }
    }
  }
  if (isGrid || mode === 'smoke') return cases;
  for (const traffic of ['forged', 'malformed'] as const) {
    cases.push({ tool, traffic, depth: usualDepth, connections: usual });
  }
  if (tool === 'wrk' && mode === 'full') {
    cases.push({ tool: 'autocannon', traffic: 'warm', depth: usualDepth, connections: usual });
  }
  return cases;
}
