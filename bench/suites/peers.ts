import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { checkAnswers, measureClosedLoop } from '../load/measure-load.js';
import { source } from '../run/programs.js';
import type { Bench, Suite } from '../run/suite.js';
import { ServerProcess, startService } from '../service/start.js';
import { invalidKinds } from '../workload/kinds.js';
import { checkKinds } from './url.js';

const CONNECTIONS = 32;
const OURS = 'drs-verify';

/** What a file of bench/peers/ exports, besides `verify`: the verdict on a bundle, or a promise of it. */
interface Peer {
  readonly checks: string;
  readonly leavesOut: string;
}

/** What others publish of themselves, and cannot be measured here. */
type Published = Peer & Readonly<Record<'name' | 'figure' | 'source', string>>;

/** Compares with what an engineer would write instead, for the same bundles. */
export const peers: Suite = {
  name: 'peers',
  about: 'what a call costs Fastify with libsodium, node:crypto or jose; what others publish of themselves',
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    const servers = new Map<string, ServerProcess>();
    try {
      servers.set(OURS, await startService());
      const wrong = await wrongIn(bench, servers.get(OURS) as ServerProcess);
      recorder.blame(`peers/${OURS}`, wrong.length, wrong[0] ?? '');
      const files = readdirSync(source('peers')).filter((file) => file.endsWith('.mjs'));
      for (const name of files.map((file) => path.basename(file, '.mjs')))
        await addPeer(bench, name, servers);
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
    } finally {
      for (const server of servers.values()) await server[Symbol.asyncDispose]();
    }
    const published = JSON.parse(readFileSync(source('peers/published.json'), 'utf8')) as Published[];
    for (const { name, figure, checks, leavesOut, source: from } of published)
      recorder.notes.push(
        `peers: published by others, not measured here: ${name}: ${figure}. It checks ${checks}; it leaves out ${leavesOut} (${from})`,
      );
  },
};

/** Adds a peer, unless it is broken: others are measured all the same. */
export async function addPeer(
  bench: Bench,
  name: string,
  servers: Map<string, ServerProcess>,
): Promise<void> {
  const { recorder } = bench;
  try {
    const { checks, leavesOut } = (await import(source(`peers/${name}.mjs`))) as Peer;
    const server = await ServerProcess.start(source('peers/shared/serve.mjs'), { args: [name] });
    servers.set(name, server);
    const [wrong] = await wrongIn(bench, server);
    if (wrong !== undefined) throw new Error(wrong);
    recorder.notes.push(`peers: ${name} checks ${checks}; it leaves out ${leavesOut}`);
  } catch (error) {
    await servers.get(name)?.[Symbol.asyncDispose]();
    servers.delete(name);
    recorder.skip(`peers/${name}`, (error as Error).message);
  }
}

/** Asks for the verdict on each kind of call. This also warms it up. @returns the answers that are wrong */
async function wrongIn({ plan, workloads }: Bench, { port }: ServerProcess): Promise<string[]> {
  const place = { host: '127.0.0.1', port, authority: 'localhost', path: '/verify' };
  const { wrong } = await checkKinds(place, invalidKinds(), null, true);
  for (const depth of plan.coreDepths) {
    const { firstWrong } = await checkAnswers(port, workloads.warm(depth));
    if (firstWrong !== '') wrong.push(firstWrong);
  }
  return wrong;
}
