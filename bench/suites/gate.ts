import { median } from 'simple-statistics';
import { measureClosedLoop } from '../load/measure-load.js';
import { warmingUp, type Bench, type Suite } from '../run/suite.js';
import { startService, type ServerProcess } from '../service/start.js';
import { gateCalls, gateWorkloads } from '../workload/workload.js';

const CONNECTIONS = 32;
const PAIRS = { full: 6, all: 2, quick: 6, smoke: 1 };
const WARM_UP_SECONDS = 4;

/** Measures what a gate costs compared with a verdict alone. */
export const gate: Suite = {
  name: 'gate',
  about: '/gate/mcp and gRPC beside /verify for the same calls',
  run: async (bench) => {
    const { plan } = bench;
    // Calls are repeated here, so replay protection is off, as it is for /verify.
    await using server = await startService({ GATE_REPLAY: 'off', GRPC_PORT: '0' });
    const few = plan.mode === 'all' ? plan.coreDepths : plan.depths.filter((depth) => depth <= 4);
    for (const depth of plan.mode === 'full' ? plan.depths : few) {
      await measurePairs(bench, server, depth);
      bench.recorder.measureFloor();
      // Envoy's protocol, `Check` over gRPC; the generator warms itself and the service up.
      await measureClosedLoop(bench, {
        ...{ id: `gate/grpc/d${depth}/c${CONNECTIONS}`, server, hasMetrics: true, connections: CONNECTIONS },
        ...{ seconds: plan.seconds, workload: gateWorkloads(bench.workloads, depth).grpc },
      });
    }
  },
};

/**
 * Sends the same calls to both endpoints in turn, a second each. One result is the median difference of the pairs: the
 * speed of the machine changes, and pairs that are next to each other have nearly the same speed.
 */
async function measurePairs(bench: Bench, server: ServerProcess, depth: number): Promise<void> {
  const { plan, recorder, run, workloads } = bench;
  await prime(bench, server, depth);
  const files = gateWorkloads(workloads, depth);
  const measure = async (way: 'verify' | 'gate', on: Bench, seconds: number) => {
    const id = `gate/${way}/d${depth}/c${CONNECTIONS}`;
    const loop = { id, server, hasMetrics: true, connections: CONNECTIONS, seconds, workload: files[way] };
    const { cpu } = await measureClosedLoop(on, loop);
    return cpu / on.recorder.floor;
  };
  const orderOf = (pair: number) =>
    (run + pair) % 2 === 0 ? (['verify', 'gate'] as const) : (['gate', 'verify'] as const);
  recorder.measureFloor();
  if (depth === plan.depths[0])
    for (const way of orderOf(0))
      await measure(way, warmingUp(bench), plan.mode === 'smoke' ? 1 : WARM_UP_SECONDS);
  const added: number[] = [];
  for (let pair = 1; pair <= PAIRS[plan.mode]; pair++) {
    const floors = { verify: 0, gate: 0 };
    for (const way of orderOf(pair)) floors[way] = await measure(way, bench, 1);
    added.push(floors.gate - floors.verify);
  }
  const typical = median(added);
  if (Number.isFinite(typical)) recorder.record(`gate/added/d${depth}/cpu`, typical * recorder.floor);
  else recorder.skip(`gate/added/d${depth}`, 'the operating system does not tell processor times');
  bench.say(`gate · depth ${depth}, run ${run}: ${typical.toFixed(2)} floors over /verify`);
}

/** Checks the answers of both endpoints exactly, and warms them up. */
async function prime({ recorder, workloads }: Bench, { port }: ServerProcess, depth: number): Promise<void> {
  const wrong: string[] = [];
  const check = async (path: string, body: string, bundle: string, expected: RegExp) => {
    const headers = { 'Content-Type': 'application/json', ...(bundle !== '' && { 'X-DRS-Bundle': bundle }) };
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body });
    const told = ['chain-depth', 'tool', 'binding'].map((name) => answer.headers.get(`x-drs-${name}`));
    const found = `${answer.status} ${told.join(' ')} ${await answer.text()}`;
    if (!expected.test(found)) wrong.push(`${path}: ${found}, expected ${expected.source}`);
  };
  const passed = new RegExp(`^200 ${depth} search match $`);
  for (const { verify, bundle, message } of gateCalls(workloads, depth)) {
    await check('/verify', verify, '', /^200 +\{"valid":true,.*"binding":"match"/);
    await check('/gate/mcp', message, bundle, passed);
    await check('/gate/mcp', message.replace('"search"', '"fetch"'), bundle, /^403 /);
  }
  recorder.blame(`the first requests of the gate at depth ${depth}`, wrong.length, wrong[0] ?? '');
}
