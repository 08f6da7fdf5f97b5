import autocannon from 'autocannon';
import { build } from 'hdr-histogram-js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { measureClosedLoop, prime } from '../load/measure-load.js';
import type { Plan } from '../run/options.js';
import { warmingUp, type Bench, type Suite } from '../run/suite.js';
import { environmentFor, startService, type ServerProcess } from '../service/start.js';
import type { Traffic } from '../workload/workload.js';

interface Case {
  readonly depth: number;
  readonly connections: number;
}

const CONNECTIONS = 32;

/** Measures the running service under closed loops, and the library without a network. */
export const throughput: Suite = {
  name: 'throughput',
  about: 'processor time, throughput, latency at 1, 32 and 128 connections; the library alone',
  run: async (bench) => {
    const { plan, recorder } = bench;
    await measureLibrary(bench);
    for (const traffic of ['warm', 'cold'] as const) {
      const cases = casesOf(plan, traffic);
      await using server = await startService(environmentFor(traffic));
      for (const depth of new Set(cases.map(({ depth }) => depth))) await prime(bench, server, depth);
      const measure = (on: Bench, { depth, connections }: Case) =>
        measureClosedLoop(on, {
          ...{ id: `throughput/${traffic}/d${depth}/c${connections}`, server, hasMetrics: true, connections },
          ...{ seconds: plan.seconds, workload: bench.workloads.files(traffic, depth) },
        });
      for (const one of cases.slice(0, 1)) await measure(warmingUp(bench), one);
      for (const one of cases) {
        recorder.measureFloor();
        await measure(bench, one);
      }
      if (traffic === 'warm' && plan.depths.includes(4)) {
        const one = { server, depth: 4, connections: CONNECTIONS };
        await bench.undisturbed(() => measureByAutocannon(bench, one));
      }
    }
  },
};

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
