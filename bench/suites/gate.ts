import { median } from 'simple-statistics';
import { measureClosedLoop, type ClosedLoopResult } from '../load/measure-load.js';
import { runGrpc } from '../load/grpc.js';
import { runWrk, wrkVersion } from '../load/wrk.js';
import { discarding } from '../run/discarding.js';
import type { Bench, Suite } from '../run/suite.js';
import { hasNginx, startNginx, type Nginx } from '../service/nginx.js';
import { ServerProcess, startService } from '../service/start.js';
import { gateCalls, gateWorkloads } from '../workload/gate.js';

const DEPTH = 4;
const CONNECTIONS = 32;
/** Numbers of connections to try, to see how many a gateway needs. A connection carries one request at a time. */
const LADDER = [1, 2, 4, 8, 16, 32, 64];
const ENOUGH = 0.95;
const PAIRS = 6;
const WARM_UP_SECONDS = 4;

/** Measures what a gate costs compared with a verdict alone, and in front of a tool. */
export const gate: Suite = {
  name: 'gate',
  about:
    '/gate/mcp and gRPC beside /verify for the same calls; by connections; nginx with and without a gate',
  run: async (bench) => {
    const { plan, recorder } = bench;
    if (wrkVersion() === null) {
      recorder.skip('gate', 'wrk is not installed; autocannon sends no header that differs by request');
      return;
    }
    for (let round = 1; round <= plan.runs; round++) {
      // Calls are repeated here, so replay protection is off, as it is for /verify.
      const server = await startService({ GATE_REPLAY: 'off', GRPC_PORT: '0' });
      try {
        const depths = plan.mode === 'full' ? plan.depths : plan.depths.filter((depth) => depth <= 4);
        for (const depth of depths) {
          await measurePair(bench, server, depth, round);
          await measureGrpc(bench, server, depth, round);
        }
        if (plan.mode !== 'smoke') await measureLadder(bench, server, round);
        if (plan.mode !== 'smoke') await measureNginx(bench, server, round);
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
    const result = await measureClosedLoop(on, {
      id: `gate/${way}/d${depth}/c${CONNECTIONS}`,
      parameters: { tool: 'wrk', traffic: 'warm', way, depth, connections: CONNECTIONS },
      ...{ server, hasMetrics: true, tool: 'wrk', connections: CONNECTIONS, seconds },
      workload: files[way],
    });
    return inFloors(result, on.recorder.floor);
  };
  const orders = [['verify', 'gate'] as const, ['gate', 'verify'] as const];
  const orderOf = (pair: number) => orders[(round + pair) % 2] ?? ['verify', 'gate'];
  if (depth === plan.depths[0]) {
    // A new process: V8 compiles in the first seconds.
    const first = discarding(bench);
    first.recorder.measureFloor();
    for (const way of orderOf(0)) await measure(way, first, plan.mode === 'smoke' ? 1 : WARM_UP_SECONDS);
  }
  recorder.measureFloor();
  const added: number[] = [];
  for (let pair = 1; pair <= (plan.mode === 'smoke' ? 1 : PAIRS); pair++) {
    const floors = { verify: 0, gate: 0 };
    for (const way of orderOf(pair)) floors[way] = await measure(way, bench, 1);
    added.push(floors.gate - floors.verify);
  }
  const typical = median(added);
  if (Number.isFinite(typical)) {
    const parameters = { traffic: 'warm', depth, connections: CONNECTIONS };
    const value = typical * recorder.floor;
    recorder.record({ id: `gate/added/d${depth}/cpu`, unit: 'µs', better: 'lower', value, parameters });
  } else recorder.skip(`gate/added/d${depth}`, 'the operating system does not tell processor times');
  bench.say(`gate · depth ${depth}, run ${round} of ${plan.runs}: ${typical.toFixed(2)} floors over /verify`);
}

const inFloors = ({ cpu }: ClosedLoopResult, floor: number) => (cpu === null ? Number.NaN : cpu / floor);

/** Measures the same calls over Envoy's protocol, `Check` over gRPC. */
async function measureGrpc(bench: Bench, server: ServerProcess, depth: number, round: number): Promise<void> {
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
  recorder.record({ id: `${id}/throughput`, unit: '1/s', better: 'higher', value: rate, parameters });
  recorder.recordLatencies(id, result.latencies, parameters);
  if (before.time === null || after.time === null) return;
  const cpu = (after.time.total - before.time.total) / result.requests;
  recorder.record({ id: `${id}/cpu`, unit: 'µs', better: 'lower', value: cpu, parameters });
  const floors = (cpu / recorder.floor).toFixed(2);
  bench.say(
    `gate · gRPC at depth ${depth}, run ${round} of ${plan.runs}: ${floors} floors, ${Math.round(rate)} /s`,
  );
}

/** Measures throughput by the number of connections, each with one request at a time. */
async function measureLadder(bench: Bench, server: ServerProcess, round: number): Promise<void> {
  const { plan, recorder, workloads } = bench;
  await prime(bench, server, DEPTH);
  const workload = gateWorkloads(workloads, DEPTH).gate;
  const rates: number[] = [];
  for (const connections of LADDER) {
    recorder.measureFloor();
    const { requests, seconds } = await measureClosedLoop(bench, {
      id: `gate/connections/d${DEPTH}/c${connections}`,
      parameters: { tool: 'wrk', traffic: 'warm', depth: DEPTH, connections },
      ...{ server, hasMetrics: true, tool: 'wrk', connections, seconds: plan.seconds, workload },
    });
    rates.push(requests / seconds);
  }
  const enough = LADDER[rates.findIndex((rate) => rate >= ENOUGH * Math.max(...rates))] ?? 0;
  const parameters = { depth: DEPTH, of: ENOUGH };
  recorder.record({
    id: 'gate/saturating',
    unit: 'connections',
    better: 'neither',
    value: enough,
    parameters,
  });
  const shown = LADDER.map((connections, at) => `${connections}: ${Math.round(rates[at] ?? 0)} /s`).join(
    ', ',
  );
  bench.say(`gate · connections, run ${round}: ${shown}; ${enough} saturate it`);
}

/** Measures nginx with the recipe in front of a tool that answers at once, and the same nginx without a gate. */
async function measureNginx(bench: Bench, gateServer: ServerProcess, round: number): Promise<void> {
  const { plan, recorder, workloads } = bench;
  if (!hasNginx()) {
    recorder.skip('gate/nginx', 'nginx and its JavaScript module are not installed');
    return;
  }
  const workload = gateWorkloads(workloads, DEPTH).proxy;
  const tools = await ServerProcess.start('service/no-op-process.js', { env: { DEPTH: String(DEPTH) } });
  const proxies: [name: string, proxy: Nginx][] = [];
  try {
    proxies.push(['gated', await startNginx({ gate: gateServer.port, tools: tools.port })]);
    proxies.push(['plain', await startNginx({ gate: null, tools: tools.port })]);
    if (round % 2 === 0) proxies.reverse();
    for (const [name, proxy] of proxies) {
      const id = `gate/nginx-${name}/d${DEPTH}/c${CONNECTIONS}`;
      const parameters = { tool: 'wrk', depth: DEPTH, connections: CONNECTIONS, way: name };
      const run = (seconds: number) =>
        runWrk(workload, { port: proxy.port, connections: CONNECTIONS, seconds });
      const first = await run(1);
      recorder.blame(`${id} at first`, first.wrong, first.firstWrong);
      recorder.measureFloor();
      const before = { proxy: proxy.processorTime(), asked: await allowed(gateServer) };
      const result = await bench.watch(id, [proxy.pid, gateServer.pid], () => run(plan.seconds));
      const after = { proxy: proxy.processorTime(), asked: await allowed(gateServer) };
      recorder.blame(id, result.wrong, result.firstWrong);
      const asked = after.asked - before.asked;
      const isAsked = name === 'gated';
      if (isAsked ? asked < result.requests : asked > 0)
        recorder.blame(id, 1, `the gate was asked ${asked} times about ${result.requests} requests`);
      const value = result.requests / result.seconds;
      recorder.record({ id: `${id}/throughput`, unit: '1/s', better: 'higher', value, parameters });
      recorder.recordLatencies(id, result.latencies, parameters);
      if (before.proxy !== null && after.proxy !== null) {
        const cpu = (after.proxy - before.proxy) / result.requests;
        recorder.record({ id: `${id}/nginx-cpu`, unit: 'µs', better: 'lower', value: cpu, parameters });
      }
      bench.say(`gate · nginx ${name}, run ${round} of ${plan.runs}: ${Math.round(value)} /s`);
    }
  } finally {
    for (const [, proxy] of proxies) await proxy.stop();
    await tools.stop();
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
    const allowed = await post('/gate/mcp', message, bundle);
    const said = ['chain-depth', 'tool', 'binding']
      .map((name) => allowed.headers.get(`x-drs-${name}`))
      .join(' ');
    if (`${allowed.status} ${said} ${await allowed.text()}` !== `200 ${depth} search match `)
      wrong.push(`/gate/mcp: ${allowed.status} ${said}`);
    const denied = await post('/gate/mcp', message.replace('"search"', '"fetch"'), bundle);
    if (denied.status !== 403) wrong.push(`/gate/mcp: ${denied.status} for another tool`);
    await denied.arrayBuffer();
  }
  recorder.blame(`the first requests of the gate at depth ${depth}`, wrong.length, wrong[0] ?? '');
}
