import { mkdtempSync } from 'node:fs';
import path from 'node:path';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { measureClosedLoop, prime } from '../load/measure-load.js';
import { runClosedLoop } from '../load/open-loop.js';
import {
  monotonic,
  partOf,
  profilingArgs,
  readProfiles,
  selfTimes,
  trimProfile,
} from '../measure/cpu-profile.js';
import type { Plan } from '../run/options.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';
import { COLD_CACHE_BYTES, type Traffic } from '../workload/workload.js';

interface Case {
  readonly traffic: Traffic;
  readonly depth: number;
  readonly connections: number;
}

/** The usual case. Other cases differ from it in one parameter. */
const USUAL = { depth: 4, connections: 32 } as const;
const PROFILE_SECONDS = 2;

/** Measures the running service under closed loops, and where its time goes. */
export const throughput: Suite = {
  name: 'throughput',
  about: 'processor time, throughput and latency of the service at 1 to 512 connections; where the time goes',
  run: async (bench) => {
    const { plan, recorder } = bench;
    const cases = casesOf(plan);
    // Each round runs all cases once, with new processes. So the runs of a figure are spread over the whole time and
    // over several compilations of the code, and their spread includes the effects of both.
    for (let round = 1; round <= plan.runs; round++) {
      await measureLibrary(bench);
      if (plan.mode !== 'smoke') await measureNoOp(bench);
      for (const isCold of [false, true]) {
        const own = cases.filter(({ traffic }) => isCold === (traffic === 'cold'));
        const server = await startService(environmentOf(isCold));
        try {
          for (const depth of new Set(own.map(({ depth }) => depth))) await prime(bench, server, depth);
          if (own[0] !== undefined)
            await measureCase({ ...bench, recorder: recorder.discarding() }, own[0], server);
          for (const one of own) {
            recorder.measureFloor();
            await measureCase(bench, one, server);
          }
        } finally {
          await server.stop();
        }
        if (plan.mode === 'smoke') continue;
        for (const depth of plan.coreDepths) await measureParts(bench, isCold ? 'cold' : 'warm', depth);
      }
    }
  },
};

const environmentOf = (isCold: boolean): Readonly<Record<string, string>> =>
  isCold ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};

async function measureCase(bench: Bench, one: Case, server: ServerProcess): Promise<void> {
  const { traffic, depth, connections } = one;
  const id = `throughput/${traffic}/d${depth}/c${connections}`;
  const { requests, seconds } = await measureClosedLoop(bench, {
    ...{ id, parameters: { ...one }, server, hasMetrics: true, connections, seconds: bench.plan.seconds },
    workload: bench.workloads.files(traffic, depth),
  });
  bench.say(`${id}: ${Math.round(requests / seconds)} /s`);
}

function casesOf({ mode, depths, coreDepths }: Plan): Case[] {
  const { depth: usualDepth = depths[0] ?? 1, connections } = depths.includes(USUAL.depth)
    ? USUAL
    : { ...USUAL, depth: undefined };
  const all = (traffic: Traffic, of: readonly number[], count: number): Case[] =>
    of.map((depth) => ({ traffic, depth, connections: count }));
  const usual = [...all('warm', depths, connections), ...all('cold', depths, connections)];
  if (mode === 'smoke') return usual;
  return [
    ...usual,
    ...[1, 128].flatMap((count) => all('warm', coreDepths, count)),
    ...[8, 512].flatMap((count) => all('warm', [usualDepth], count)),
    ...all('forged', [usualDepth], connections),
    ...all('malformed', [usualDepth], connections),
  ];
}

/** A server that does nothing: no higher throughput can be measured here. */
async function measureNoOp(bench: Bench): Promise<void> {
  const { connections, depth } = USUAL;
  const server = await ServerProcess.start('service/no-op-process.js', { env: { DEPTH: String(depth) } });
  try {
    bench.recorder.measureFloor();
    await measureClosedLoop(bench, {
      ...{ id: `throughput/no-op/d${depth}/c${connections}`, parameters: { depth, connections } },
      ...{ server, hasMetrics: false, connections, seconds: bench.plan.seconds },
      // It gives every request the same answer.
      workload: { ...bench.workloads.files('warm', depth), answersFile: '' },
    });
  } finally {
    await server.stop();
  }
}

const LIBRARY_MS = 100;

/** `createVerifier` without a network and without threads, one call after the other. */
async function measureLibrary({ plan, recorder, workloads }: Bench): Promise<void> {
  for (const depth of plan.coreDepths) {
    for (const traffic of ['warm', 'cold'] as const) {
      // A new verifier each time, so that its cache is cold.
      const verifier = createVerifier({ workerThreads: 0 });
      const bundles = workloads[traffic](depth).map(({ body }) => JSON.parse(body) as unknown);
      let at = 0;
      let wrong = 0;
      const run = async (milliseconds: number) => {
        const before = [process.cpuUsage(), at] as const;
        const end = performance.now() + milliseconds;
        // Cold bundles are never used twice.
        while (performance.now() < end && (traffic === 'warm' || at < bundles.length))
          if (!(await verifier.verify(bundles[at++ % bundles.length])).valid) wrong++;
        const { user, system } = process.cpuUsage(before[0]);
        return (user + system) / (at - before[1]);
      };
      try {
        await run(LIBRARY_MS);
        recorder.measureFloor();
        const id = `throughput/library/${traffic}/d${depth}`;
        recorder.record(`${id}/cpu`, await run(LIBRARY_MS), { traffic, depth });
        recorder.blame(id, wrong, 'a valid bundle was refused');
      } finally {
        await verifier.close();
      }
    }
  }
}

/** Where the processor time of a request goes: a profile of all threads, by the parts of the service. */
async function measureParts(bench: Bench, traffic: 'warm' | 'cold', depth: number): Promise<void> {
  const { recorder, workloads, say } = bench;
  const { connections } = USUAL;
  const id = `throughput/parts/${traffic}/d${depth}`;
  const directory = mkdtempSync(path.join(workloads.directory, 'profile-'));
  const server = await startService(environmentOf(traffic === 'cold'), {
    nodeArgs: profilingArgs(directory),
  });
  let [from, until, requests] = [0, 0, 0];
  try {
    await prime(bench, server, depth);
    for (const seconds of [1, PROFILE_SECONDS]) {
      const workload = workloads.files(traffic, depth);
      from = monotonic();
      const result = await runClosedLoop(workload, { port: server.port, connections, seconds });
      until = monotonic();
      requests = result.requests;
      workloads.advance(workload, 2 * requests);
      recorder.blame(id, result.wrong, result.firstWrong);
    }
  } finally {
    await server.stop();
  }
  const parts = new Map<string, number>();
  for (const { profile } of readProfiles(directory))
    for (const [part, micros] of selfTimes(trimProfile(profile, from, until), partOf))
      if (part !== 'idle') parts.set(part, (parts.get(part) ?? 0) + micros);
  const all = [...parts.values()].reduce((sum, micros) => sum + micros, 0);
  // What is too small to see in a chart is one part.
  const large = [...parts].filter(([, micros]) => micros >= all / 50);
  const rest = all - large.reduce((sum, [, micros]) => sum + micros, 0);
  for (const [part, micros] of [...large, ['the rest', rest] as const]) {
    const parameters = { traffic, depth, part };
    // A thread that waits for a core counts, too, so shares are right, and not the time of a request.
    recorder.record(`${id}/${part}`, micros / all, parameters, ['ratio', 'neither']);
  }
  say(`${id}: ${large.map(([part, micros]) => `${part} ${Math.round((100 * micros) / all)} %`).join(', ')}`);
}
