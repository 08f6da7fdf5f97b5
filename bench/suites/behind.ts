import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { RECIPE, startRecipe, type Recipe } from '../../test/e2e/gate-proxies.js';
import { isInstalled } from '../../test/support/needed-programs.mjs';
import { runCallers } from '../load/callers.js';
import { Generator, type LoadResult } from '../load/open-loop.js';
import { descendantsOf } from '../measure/processor-time.js';
import { program, ROOT } from '../run/programs.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';
import { CHECK, gateCalls, gateWorkloads } from '../workload/workload.js';

/** As many callers as keep a proxy busy; and the share of the time of one caller that they get. */
const CONNECTIONS = 32;
const SHARE = 0.3;
/** For each depth. Until V8 has compiled, a call takes several times as long. */
const FIRST_SECONDS = 0.7;

const GATES = ['off', 'on'] as const;
type Gate = (typeof GATES)[number];
type Fared = Pick<LoadResult, 'latencies' | 'answered' | 'seconds' | 'wrong' | 'firstWrong'>;

/** A way to the tool server. Without a gate, the tool must have been told nothing. */
type Door = (gate: Gate, depth: number, inFlight: number, seconds: number) => Promise<Fared>;
type Doors = Readonly<Record<Gate, Door>>;

/** Measures what a gate costs where it stands: the same tool and the same calls with it and without it. */
export const behind: Suite = {
  name: 'behind',
  about: 'p50, p99 and rate of a tool behind nginx, HAProxy, ext_authz and guards, with and without the gate',
  isAboutLatency: true,
  run: async (bench) => {
    const { plan } = bench;
    const opened: (() => unknown)[] = [];
    try {
      const ways = await open(bench, opened);
      for (const [, doors] of ways)
        for (const gate of GATES)
          for (const depth of plan.coreDepths) await doors[gate](gate, depth, CONNECTIONS, FIRST_SECONDS);
      for (const depth of plan.coreDepths)
        for (const [name, doors] of ways) await measure(bench, `behind/${name}`, doors, depth);
    } finally {
      for (const close of opened.reverse()) await close();
    }
  },
};

/** Measures a way with the gate and without: how long one caller waits, and what many get. */
async function measure(bench: Bench, base: string, doors: Doors, depth: number): Promise<void> {
  const { plan, recorder, run, say, watch } = bench;
  const pids = descendantsOf(process.pid);
  const p50 = { off: 0, on: 0 };
  const rate = { off: 0, on: 0 };
  for (const load of [1, CONNECTIONS])
    // What is compared runs next to each other, in both orders.
    for (const gate of run % 2 === 1 ? GATES : GATES.toReversed()) {
      const id = `${base}/${gate}/d${depth}/c${load}`;
      const seconds = load === 1 ? plan.seconds : SHARE * plan.seconds;
      const fared = await watch(id, pids, () => doors[gate](gate, depth, load, seconds));
      recorder.blame(id, fared.wrong, fared.firstWrong);
      rate[gate] = fared.answered / fared.seconds;
      if (load === 1) p50[gate] = fared.latencies.getValueAtPercentile(50);
      if (load === 1) recorder.recordLatencies(id, fared.latencies);
      else recorder.record(`${id}/throughput`, rate[gate]);
    }
  recorder.record(`${base}/d${depth}/added-p50`, p50.on - p50.off);
  recorder.record(`${base}/d${depth}/ratio`, rate.on / rate.off);
  const shown = GATES.map((gate) => `${gate}: p50 ${p50[gate]} µs, ${Math.round(rate[gate])} /s`);
  say(`${base}, depth ${depth}, the gate ${shown.join('; ')}`);
}

const TOOL = 'service/tool-process.js';
const MAIN = path.join(ROOT, 'dist/cli/main.js');
const GUARD = ['guard', '--trusted-root', 'any', '--tool-server', 'any'];
const OF_GUARD = { DRS_GATE_REPLAY: 'off' };

/** Starts everything, but for what is not installed. @param opened gets what ends it */
async function open(bench: Bench, opened: (() => unknown)[]): Promise<ReadonlyMap<string, Doors>> {
  const started = async (starting: Promise<ServerProcess>) => {
    const server = await starting;
    opened.push(() => server[Symbol.asyncDispose]());
    return server;
  };
  const http = httpDoors(bench, opened);
  const service = await started(startService({ GATE_REPLAY: 'off', GRPC_PORT: '0', TRUST_PROXY: '1' }));
  const tool = await started(ServerProcess.start(TOOL));
  const doors = new Map<string, Doors>();
  for (const name of ['nginx', 'haproxy'] as const) {
    const recipe: Recipe = RECIPE[name];
    const start = async (one: Recipe) => {
      const proxy = await startRecipe(one, service.port, tool.port);
      opened.push(() => proxy.stop());
      return http(Number(new URL(proxy.url).port));
    };
    if (isInstalled(recipe.program) && isInstalled(recipe.module ?? recipe.program))
      doors.set(name, { off: await start(recipeOf(recipe, 'off')), on: await start(recipeOf(recipe, 'on')) });
    else bench.recorder.skip(`behind/${name}`, 'it is not installed, or its module is not');
  }
  const direct = http(tool.port);
  const env = { GATE_PORT: String(service.portFor({ path: CHECK })) };
  const asking = await started(ServerProcess.start(TOOL, { env }));
  doors.set('ext-authz', { off: direct, on: http(asking.port) });
  const args = [...GUARD, '--to', `http://127.0.0.1:${tool.port}/mcp`, '--listen', '127.0.0.1:0'];
  const guard = await started(ServerProcess.start(MAIN, { args, env: OF_GUARD }));
  doors.set('guard-http', { off: direct, on: http(guard.port) });
  const server = [program(TOOL), 'stdio'];
  const guarded = [MAIN, ...GUARD, '--', process.execPath, ...server];
  doors.set('guard-stdio', { off: stdioDoor(bench, server, opened), on: stdioDoor(bench, guarded, opened) });
  return doors;
}

/** A recipe of deploy/, which does everything but ask where the gate is off. */
function recipeOf(recipe: Recipe, gate: Gate): Recipe {
  const change = (text: string) => {
    // nginx closes a connection after 1,000 requests, and generators keep theirs.
    const kept = text.replace(/^http \{/m, 'http {\nkeepalive_requests 100000000;');
    if (gate === 'on') return kept;
    return kept
      .replace('js_content drs.gate;', 'error_page 418 = @tools;\nreturn 418;')
      .replace(/^ *http-request (lua\.drs-gate|return status 503 .*)\n/gm, '');
  };
  const { adapt = (text) => text } = recipe;
  return { ...recipe, adapt: (text, folder, file) => adapt(change(text), folder, file) };
}

/** What the tool must answer. */
const markerOf = (gate: Gate, depth: number) => `"text":"depth ${gate === 'on' ? depth : 'none'}"`;

/** Makes doors of ports. */
function httpDoors({ workloads }: Bench, opened: (() => unknown)[]): (port: number) => Door {
  return (port) => {
    // One for each: to a generator, a connection that a server closes is a wrong answer, whichever server it is.
    const generator = new Generator();
    opened.push(() => generator[Symbol.asyncDispose]());
    const load = { port, warmUpSeconds: 0.1, clients: { requests: null } };
    return (gate, depth, connections, seconds) => {
      const { gate: calls } = gateWorkloads(workloads, depth);
      const workload = { ...calls, path: '/mcp', marker: markerOf(gate, depth) };
      return generator.run(workload, { ...load, connections, seconds });
    };
  };
}

/** Starts a server over stdio, which this process asks. */
function stdioDoor({ workloads }: Bench, args: readonly string[], opened: (() => unknown)[]): Door {
  const env = { PATH: process.env['PATH'], ...OF_GUARD };
  const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'ignore'] });
  opened.push(() => child.kill());
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`${args.join(' ')} ended`)));
  ended.catch(() => undefined);
  // Answers come in the order of the calls.
  const waiting: ((line: string) => void)[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.(line));
  let id = 0;
  return async (gate, depth, inFlight, seconds) => {
    const calls = gateCalls(workloads, depth).map(({ message, bundle }) => {
      const { params, ...call } = JSON.parse(message) as { params: object };
      return { ...call, params: { ...params, _meta: { 'X-DRS-Bundle': bundle } } };
    });
    const ask = async () => {
      child.stdin.write(`${JSON.stringify({ ...calls[id % calls.length], id: id++ })}\n`);
      const line = await new Promise<string>((resolve) => waiting.push(resolve));
      return line.includes(markerOf(gate, depth)) ? '' : line;
    };
    return Promise.race([ended, runCallers(inFlight, seconds, ask)]);
  };
}
