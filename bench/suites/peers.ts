import { bestTool, measureClosedLoop, prime } from '../load/measure-load.js';
import { runProgram } from '../load/run-program.js';
import { program } from '../run/paths.js';
import type { InProcessJob, InProcessReport } from '../peers/in-process-report.js';
import { ServerProcess, startService } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { forge, garble, makeCall, makeChain } from '../workload/chains.js';

const CONNECTIONS = 32;

const SERVERS: Readonly<Record<string, () => Promise<ServerProcess>>> = {
  'drs-verify': () => startService(),
  'drs-verify-no-cache': () => startService({ RECEIPT_CACHE_BYTES: '0' }),
  'core-on-node-http': () => ServerProcess.start('peers/node-http-process.js'),
  'fastify-sodium-memo': () => ServerProcess.start('peers/fastify-memo-process.js'),
  'fastify-sodium-memo-cluster': () =>
    ServerProcess.start('peers/fastify-memo-process.js', { env: { PEER_CLUSTER: '1' } }),
  'fastify-node-crypto': () => ServerProcess.start('peers/fastify-process.js'),
  'express-jose': () => ServerProcess.start('peers/express-process.js'),
};

const SAME_KIND: Readonly<Record<string, readonly string[]>> = {
  ucanto: [program('peers/ucanto-process.js')],
  biscuit: ['--experimental-wasm-modules', '--no-warnings', program('peers/biscuit-process.js')],
  'cedar-policy-only': [program('peers/cedar-process.js')],
};

/** Compares with what an engineer would write or choose instead. */
export const peers: Suite = {
  name: 'peers',
  about:
    'Express + jose, Fastify + node:crypto, Fastify + libsodium + memo (also on node:cluster), the core on node:http, no cache; UCAN, Biscuit and the policies of Cedar in process',
  run: async (bench) => {
    const servers = new Map<string, ServerProcess>();
    try {
      for (const [name, start] of Object.entries(SERVERS)) servers.set(name, await start());
      await measureServers(bench, servers);
    } finally {
      for (const server of servers.values()) await server.stop();
    }
    for (const [name, args] of Object.entries(SAME_KIND)) await measureSameKind(bench, name, args);
    bench.recorder.notes.push(
      'peers: Express and Fastify run a plain verification that leaves out strict JSON, resources, data classes and ' +
        'replay, so they do less. UCAN (in process) checks signatures, audiences, time and derivation, but signs no ' +
        'arguments with a binding and has no status list here. Biscuit checks the signatures of its blocks and their ' +
        'Datalog; it has no delegate identities and no signed call. Cedar evaluates one policy a level, parsed beforehand, ' +
        'and nothing else: no signature, no chain, no time.',
    );
  },
};

async function measureServers(bench: Bench, servers: ReadonlyMap<string, ServerProcess>): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const tool = bestTool();
  const depths = [1, 4, 16].filter((depth) => plan.depths.includes(depth));
  for (const [name, server] of servers) {
    for (const depth of depths) await prime(bench, server, depth);
    await checkCodes(bench, name, server);
  }
  for (let run = 1; run <= Math.min(3, plan.runs); run++) {
    for (const depth of depths) {
      for (const [name, server] of servers) {
        recorder.measureFloor();
        const { requests, seconds } = await measureClosedLoop(bench, {
          id: `peers/${name}/d${depth}`,
          parameters: { tool, peer: name, depth, connections: CONNECTIONS, traffic: 'warm' },
          ...{ server, hasMetrics: false, tool, connections: CONNECTIONS, seconds: plan.seconds },
          workload: workloads.files('warm', depth),
        });
        say(`peers · ${name}, depth ${depth}: ${Math.round(requests / seconds)} /s`);
      }
    }
  }
}

/** Checks that invalid bundles are refused, with the right codes. */
async function checkCodes({ recorder }: Bench, name: string, server: ServerProcess): Promise<void> {
  const chain = makeChain(3);
  const call = makeCall(chain);
  const { invocation, receipts } = JSON.parse(call.body) as { invocation: string; receipts: string[] };
  const swapped = { bundle_version: '4.0', invocation, receipts: [receipts[0], receipts[2], receipts[1]] };
  const cases = [
    [forge(call), 'INVALID_INVOCATION_SIGNATURE'],
    [garble(call), 'MALFORMED_INVOCATION'],
    [JSON.stringify(swapped), 'CHAIN_BREAK'],
    [makeCall(chain, { tool: 'delete' }).body, 'POLICY_VIOLATION'],
    [makeCall(chain, { tool: 'search', estimated_cost_usd: 1000 }).body, 'POLICY_VIOLATION'],
  ] as const;
  for (const [body, code] of cases) {
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${server.port}/verify`, { method: 'POST', headers, body });
    const verdict = (await response.json()) as { valid?: boolean; error?: { code?: string } };
    const isRight = verdict.valid === false && verdict.error?.code === code;
    if (!isRight) recorder.blame(`peers/${name}`, 1, `${JSON.stringify(verdict)}, expected ${code}`);
  }
}

async function measureSameKind(bench: Bench, name: string, args: readonly string[]): Promise<void> {
  const { plan, recorder, say } = bench;
  const depths = [1, 4, 16].filter((depth) => plan.depths.includes(depth));
  const job: InProcessJob = { depths, milliseconds: 3 * plan.inProcessMs };
  try {
    for (let run = 1; run <= Math.min(3, plan.runs); run++) {
      recorder.measureFloor();
      const { output } = await runProgram(process.execPath, [...args, JSON.stringify(job)]);
      // Biscuit's module prints a line before the report.
      const report = JSON.parse(output.replace(/^[^]*REPORT /, '')) as InProcessReport;
      for (const { depth, microseconds: value, cpu } of report) {
        const parameters = { peer: name, depth };
        const id = `peers/${name}/d${depth}/cpu`;
        recorder.record({ id, unit: 'µs', better: 'lower', value: cpu, parameters });
        recorder.record({
          id: `peers/${name}/d${depth}/time`,
          unit: 'µs',
          better: 'lower',
          value,
          parameters,
        });
        say(`peers · ${name}, depth ${depth}: ${value.toFixed(0)} µs in process`);
      }
    }
  } catch (error) {
    recorder.skip(`peers/${name}`, (error as Error).message.slice(0, 300));
  }
}
