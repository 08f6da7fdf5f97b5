import { median } from 'simple-statistics';
import { runGrpc } from '../load/grpc.js';
import { measureClosedLoop } from '../load/measure-load.js';
import type { Bench, Suite } from '../run/suite.js';
import { startService, type ServerProcess } from '../service/start.js';
import { gateCalls, gateWorkloads } from '../workload/workload.js';

const DEPTH = 4;
const CONNECTIONS = 32;
/** Numbers of connections to try, to see how many a gateway needs. A connection carries one request at a time. */
const LADDER = [1, 2, 4, 8, 16, 32, 64];
const PAIRS = 6;
const WARM_UP_SECONDS = 4;

/** Measures what a gate costs compared with a verdict alone. */
export const gate: Suite = {
  name: 'gate',
  about: '/gate/mcp and gRPC beside /verify for the same calls; /gate/mcp by connections',
  run: async (bench) => {
    const { plan } = bench;
    for (let round = 1; round <= plan.runs; round++) {
      // Calls are repeated here, so replay protection is off, as it is for /verify.
      const server = await startService({ GATE_REPLAY: 'off', GRPC_PORT: '0' });
      try {
        for (const depth of plan.mode === 'full' ? plan.depths : plan.depths.filter((depth) => depth <= 4)) {
          await measurePair(bench, server, depth, round);
          await measureGrpc(bench, server, depth);
        }
        if (plan.mode !== 'smoke') await measureLadder(bench, server);
      } finally {
        await server.stop();
      }
    }
  },
};

/**
 * Sends the same calls to both endpoints in turn, a second each. One result is the median difference of the pairs: the
 * speed of the machine changes, and pairs that are next to each other have nearly the same speed.
 */
async function measurePair(bench: Bench, server: ServerProcess, depth: number, round: number): Promise<void> {
  const { plan, recorder, workloads } = bench;
  await prime(bench, server, depth);
  const files = gateWorkloads(workloads, depth);
  const measure = async (way: 'verify' | 'gate', on: Bench, seconds: number) => {
    const { cpu } = await measureClosedLoop(on, {
      id: `gate/${way}/d${depth}/c${CONNECTIONS}`,
      parameters: { traffic: 'warm', way, depth, connections: CONNECTIONS },
      ...{ server, hasMetrics: true, connections: CONNECTIONS, seconds, workload: files[way] },
    });
    return cpu === null ? Number.NaN : cpu / on.recorder.floor;
  };
  const orders = [['verify', 'gate'] as const, ['gate', 'verify'] as const];
  const orderOf = (pair: number) => orders[(round + pair) % 2] ?? ['verify', 'gate'];
  recorder.measureFloor();
  if (depth === plan.depths[0]) {
    // A new process: V8 compiles in the first seconds.
    const first = { ...bench, recorder: recorder.discarding() };
    for (const way of orderOf(0)) await measure(way, first, plan.mode === 'smoke' ? 1 : WARM_UP_SECONDS);
  }
  const added: number[] = [];
  for (let pair = 1; pair <= (plan.mode === 'smoke' ? 1 : PAIRS); pair++) {
    const floors = { verify: 0, gate: 0 };
    for (const way of orderOf(pair)) floors[way] = await measure(way, bench, 1);
    added.push(floors.gate - floors.verify);
  }
  const typical = median(added);
  if (Number.isFinite(typical))
    recorder.record(`gate/added/d${depth}/cpu`, typical * recorder.floor, { traffic: 'warm', depth });
  else recorder.skip(`gate/added/d${depth}`, 'the operating system does not tell processor times');
  bench.say(`gate · depth ${depth}, run ${round}: ${typical.toFixed(2)} floors over /verify`);
}

/** Measures the same calls over Envoy's protocol, `Check` over gRPC. */
async function measureGrpc(bench: Bench, server: ServerProcess, depth: number): Promise<void> {
  const { plan, recorder, workloads } = bench;
  const id = `gate/grpc/d${depth}/c${CONNECTIONS}`;
  if (server.grpcPort === null)
    throw new Error('the service does not listen for gRPC, expected it by GRPC_PORT');
  const target = { port: server.grpcPort, connections: CONNECTIONS };
  const calls = gateCalls(workloads, depth);
  const first = await runGrpc(calls, depth, { ...target, seconds: 1 });
  recorder.blame(`${id} at first`, first.wrong + first.refused, first.firstWrong || 'refused');
  recorder.measureFloor();
  const before = { time: server.processorTime(), asked: await allowed(server) };
  const result = await bench.watch(id, server.pids, () =>
    runGrpc(calls, depth, { ...target, seconds: plan.seconds }),
  );
  const after = { time: server.processorTime(), asked: await allowed(server) };
  recorder.blame(id, result.wrong + result.refused, result.firstWrong || 'refused');
  const asked = after.asked - before.asked;
  if (asked !== result.requests)
    recorder.blame(id, 1, `the gate allowed ${asked} calls, and ${result.requests} were answered`);
  const parameters = { traffic: 'warm', way: 'grpc', depth, connections: CONNECTIONS };
  const rate = result.requests / result.seconds;
  recorder.record(`${id}/throughput`, rate, parameters);
  recorder.recordLatencies(id, result.latencies, parameters);
  if (before.time !== null && after.time !== null)
    recorder.record(`${id}/cpu`, (after.time - before.time) / result.requests, parameters);
  bench.say(`${id}: ${Math.round(rate)} /s`);
}

/** Measures throughput by the number of connections, each with one request at a time. */
async function measureLadder(bench: Bench, server: ServerProcess): Promise<void> {
  await prime(bench, server, DEPTH);
  for (const connections of LADDER) {
    bench.recorder.measureFloor();
    const { requests, seconds } = await measureClosedLoop(bench, {
      id: `gate/connections/d${DEPTH}/c${connections}`,
      parameters: { traffic: 'warm', depth: DEPTH, connections },
      ...{ server, hasMetrics: true, connections, seconds: bench.plan.seconds },
      workload: gateWorkloads(bench.workloads, DEPTH).gate,
    });
    bench.say(`gate · ${connections} connections: ${Math.round(requests / seconds)} /s`);
  }
}

const allowed = (server: ServerProcess) =>
  server.metric('drs_gate_decisions_total{protocol="mcp",decision="allow"');

/** Checks the answers of both endpoints exactly, and warms them up. */
async function prime({ recorder, workloads }: Bench, { port }: ServerProcess, depth: number): Promise<void> {
  const wrong: string[] = [];
  const post = (path: string, body: string, bundle?: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        ...(bundle !== undefined && { 'X-DRS-Bundle': bundle }),
      },
      body,
    });
  for (const { verify, bundle, message } of gateCalls(workloads, depth)) {
    const verdict = await (await post('/verify', verify)).text();
    if (!verdict.startsWith('{"valid":true,') || !verdict.includes('"binding":"match"'))
      wrong.push(`/verify: ${verdict}`);
    const passed = await post('/gate/mcp', message, bundle);
    const said = ['chain-depth', 'tool', 'binding']
      .map((name) => passed.headers.get(`x-drs-${name}`))
      .join(' ');
    if (`${passed.status} ${said} ${await passed.text()}` !== `200 ${depth} search match `)
      wrong.push(`/gate/mcp: ${passed.status} ${said}`);
    const denied = await post('/gate/mcp', message.replace('"search"', '"fetch"'), bundle);
    if (denied.status !== 403) wrong.push(`/gate/mcp: ${denied.status} for another tool`);
    await denied.arrayBuffer();
  }
  recorder.blame(`the first requests of the gate at depth ${depth}`, wrong.length, wrong[0] ?? '');
}
