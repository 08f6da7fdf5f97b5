import { measureClosedLoop, prime } from '../load/measure-load.js';
import { source } from '../run/programs.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';
import { forge, garble, makeCall, makeChain } from '../workload/chains.js';

const CONNECTIONS = 32;
const OURS = 'drs-verify';

/** Compares with what an engineer would write instead, for the same bundles. */
export const peers: Suite = {
  name: 'peers',
  about: 'Fastify + libsodium + memo',
  run: async (bench) => {
    const { recorder } = bench;
    await using ours = await startService();
    await using fastify = await ServerProcess.start(source('peers/fastify.mjs'));
    await measureServers(
      bench,
      new Map([
        [OURS, ours],
        ['fastify', fastify],
      ]),
    );
    recorder.notes.push('peers: Fastify does less: no strict JSON, resources, data classes or replay');
  },
};

async function measureServers(bench: Bench, servers: ReadonlyMap<string, ServerProcess>): Promise<void> {
  const { plan, recorder, workloads } = bench;
  for (const [name, server] of servers) {
    for (const depth of plan.coreDepths) await prime(bench, server, depth);
    await checkCodes(bench, name, server);
  }
  for (let run = 1; run <= plan.runs; run++) {
    for (const depth of plan.coreDepths) {
      let ours = Number.NaN;
      for (const [name, server] of servers) {
        recorder.measureFloor();
        const id = `peers/${name}/d${depth}`;
        const { cpu } = await measureClosedLoop(bench, {
          ...{ id, server, hasMetrics: false, connections: CONNECTIONS, seconds: plan.seconds },
          workload: workloads.files('warm', depth),
        });
        const floors = cpu / recorder.floor;
        if (name === OURS) ours = floors;
        else if (Number.isFinite(floors / ours)) recorder.record(`${id}/ratio`, floors / ours);
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
    if (verdict.valid !== false || verdict.error?.code !== code)
      recorder.blame(`peers/${name}`, 1, `${JSON.stringify(verdict)}, expected ${code}`);
  }
}
