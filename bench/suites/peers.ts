import { measureClosedLoop, prime } from '../load/measure-load.js';
import { source } from '../run/programs.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';
import { invalidKinds } from '../workload/kinds.js';
import { checkKinds } from './url.js';

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
    const place = { host: '127.0.0.1', port: server.port, authority: 'localhost', path: '/verify' };
    const { wrong } = await checkKinds(place, invalidKinds(), null, true);
    recorder.blame(`peers/${name}`, wrong.length, wrong[0] ?? '');
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
