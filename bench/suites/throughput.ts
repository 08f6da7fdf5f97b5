import autocannon from 'autocannon';
import { build } from 'hdr-histogram-js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { measureClosedLoop, prime } from '../load/measure-load.js';
import { profileUnderLoad, partOf, selfTimes } from '../load/cpu-profile.js';
import type { Plan } from '../run/options.js';
import type { Bench, Suite } from '../run/suite.js';
import { environmentFor, startService, type ServerProcess } from '../service/start.js';
import type { Traffic } from '../workload/workload.js';

interface Case {
  readonly depth: number;
  readonly connections: number;
}

const CONNECTIONS = 32;
const PROFILE_SECONDS = 2;

/** Measures the running service under closed loops, and where its time goes. */
export const throughput: Suite = {
  name: 'throughput',
  about:
    'processor time, throughput and latency of the service at 1, 32 and 128 connections; where the time goes',
  run: async (bench) => {
    const { plan, recorder } = bench;
    // Each round runs all cases once, with new processes. So the runs of a figure are spread over the whole time and
    // over several compilations of the code, and their spread includes the effects of both.
    for (let round = 1; round <= plan.runs; round++) {
      await measureLibrary(bench);
      for (const traffic of ['warm', 'cold'] as const) {
        const cases = casesOf(plan, traffic);
        await using server = await startService(environmentFor(traffic));
        for (const depth of new Set(cases.map(({ depth }) => depth))) await prime(bench, server, depth);
        // A new process: V8 compiles.
        for (const one of cases.slice(0, 1))
          await measureCase({ ...bench, recorder: recorder.discarding() }, server, traffic, one);
        for (const one of cases) {
          recorder.measureFloor();
          await measureCase(bench, server, traffic, one);
        }
        if (traffic === 'warm' && plan.depths.includes(4))
          await measureByAutocannon(bench, { server, depth: 4, connections: CONNECTIONS });
      }
      if (plan.mode === 'smoke') continue;
      for (const traffic of ['warm', 'cold'] as const)
        for (const depth of plan.coreDepths) await measureParts(bench, traffic, depth);
    }
  },
};

function measureCase(bench: Bench, server: ServerProcess, traffic: Traffic, { depth, connections }: Case) {
  return measureClosedLoop(bench, {
    ...{ id: `throughput/${traffic}/d${depth}/c${connections}`, server, hasMetrics: true, connections },
    ...{ seconds: bench.plan.seconds, workload: bench.workloads.files(traffic, depth) },
  });
}

function casesOf({ mode, depths, coreDepths }: Plan, traffic: Traffic): Case[] {
  const at = (connections: number, of: readonly number[]) => of.map((depth) => ({ depth, connections }));
  if (mode === 'smoke' || traffic === 'cold') return at(CONNECTIONS, depths);
  return [...at(CONNECTIONS, depths), ...at(1, coreDepths), ...at(128, coreDepths)];
}

/**
 * Measures warm calls with a generator that is not ours, as a check of ours: autocannon, in this process, which does
 * nothing else meanwhile. Each answer is checked. It records throughput and latencies.
 */
async function measureByAutocannon(
  { plan, recorder, say, watch, workloads }: Bench,
  { server, depth, connections }: { server: ServerProcess; depth: number; connections: number },
): Promise<void> {
  const id = `throughput/autocannon/warm/d${depth}/c${connections}`;
  const bodies = workloads.warm(depth).map(({ body }) => body);
  // Its own histogram counts in whole milliseconds.
  const latencies = build({ lowestDiscernibleValue: 1, numberOfSignificantValueDigits: 3 });
  let [next, firstWrong] = [0, ''];
  const result = await watch(id, server.pid, () =>
    autocannon({
      url: `http://127.0.0.1:${server.port}`,
      connections,
      duration: plan.seconds,
      timeout: 30,
      requests: [
        {
          method: 'POST',
          path: '/verify',
          headers: { 'Content-Type': 'application/json' },
          setupRequest: (request) => ({ ...request, body: bodies[next++ % bodies.length] ?? '' }),
        },
      ],
      setupClient: (client) =>
        client.on('response', (_status, _bytes, milliseconds) =>
          latencies.recordValue(Math.max(1, Math.round(milliseconds * 1000))),
        ),
      verifyBody(body) {
        const isRight = String(body).startsWith('{"valid":true,');
        if (!isRight) firstWrong ||= String(body).slice(0, 300);
        return isRight;
      },
    }),
  );
  recorder.blame(id, result.mismatches + result.errors + result.timeouts + result.non2xx, firstWrong);
  const rate = result.requests.total / result.duration;
  recorder.record(`${id}/throughput`, rate);
  recorder.recordLatencies(id, latencies);
  say(`${id}: ${Math.round(rate)} /s`);
}

const LIBRARY_MS = 100;

/** `createVerifier` without a network and without threads, one call after the other. */
async function measureLibrary({ plan, recorder, workloads }: Bench): Promise<void> {
  for (const depth of plan.coreDepths) {
    for (const traffic of ['warm', 'cold'] as const) {
      const id = `throughput/library/${traffic}/d${depth}`;
      // A new verifier each time, so that its cache is cold.
      const verifier = createVerifier({ workerThreads: 0 });
      const bundles = workloads[traffic](depth).map(({ body }) => JSON.parse(body) as unknown);
      let [at, wrong] = [0, 0];
      const run = async () => {
        const first = at;
        const before = process.cpuUsage();
        const end = performance.now() + LIBRARY_MS;
        // Cold bundles are never used twice.
        while (performance.now() < end && (traffic === 'warm' || at < bundles.length))
          if (!(await verifier.verify(bundles[at++ % bundles.length])).valid) wrong++;
        const { user, system } = process.cpuUsage(before);
        return (user + system) / (at - first);
      };
      try {
        await run();
        recorder.measureFloor();
        recorder.record(`${id}/cpu`, await run());
        recorder.blame(id, wrong, 'a valid bundle was refused');
      } finally {
        await verifier.close();
      }
    }
  }
}

/** Where the processor time of a request goes: a profile of all threads, by the parts of the service. */
async function measureParts(bench: Bench, traffic: Traffic, depth: number): Promise<void> {
  const { recorder, workloads, say } = bench;
  const id = `throughput/parts/${traffic}/d${depth}`;
  const target = { connections: CONNECTIONS, seconds: PROFILE_SECONDS };
  const { threads } = await profileUnderLoad(workloads, traffic, depth, target);
  const parts = new Map<string, number>();
  for (const [part, micros] of threads.flatMap(({ profile }) => selfTimes(profile, partOf)))
    if (part !== 'idle') parts.set(part, (parts.get(part) ?? 0) + micros);
  const all = [...parts.values()].reduce((sum, micros) => sum + micros, 0);
  // What is too small to see in a chart is one part.
  const large = [...parts].filter(([, micros]) => micros >= all / 50);
  const rest = all - large.reduce((sum, [, micros]) => sum + micros, 0);
  // A thread that waits for a core counts, too, so shares are right, and not the time of a request.
  for (const [part, micros] of [...large, ['the rest', rest] as const])
    recorder.record(`${id}/${part}`, micros / all, 'ratio');
  say(`${id}: ${large.map(([part, micros]) => `${part} ${Math.round((100 * micros) / all)} %`).join(', ')}`);
}
