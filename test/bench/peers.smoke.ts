import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readOptions } from '../../bench/run/options.js';
import { Recorder, type Bench } from '../../bench/run/suite.js';
import type { ServerProcess } from '../../bench/service/start.js';
import { addPeer } from '../../bench/suites/peers.js';
import { Workloads } from '../../bench/workload/workload.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-peers-'));
afterAll(() => rmSync(folder, { recursive: true }));

it.each([
  ['jose', [], 'peers: jose checks blocks A to F'],
  // Nobody has it, and a file that gives no verdicts.
  ['no-such-peer', [['peers/no-such-peer', 'Cannot find module']], undefined],
  ['shared/blocks', [['peers/shared/blocks', 'a forged call: 500']], undefined],
])('the peer "%s" is measured, or left out with a line', async (name, skipped, note) => {
  const recorder = new Recorder();
  const { plan } = readOptions(['--depths', '1']);
  const servers = new Map<string, ServerProcess>();
  const bench: Bench = {
    ...{ plan, recorder, run: 1, workloads: new Workloads(folder), say: () => undefined },
    undisturbed: (step) => step(),
    watch: (_id, _pid, measure) => measure(),
  };
  await addPeer(bench, name, servers);
  const found = recorder.recorded.skipped.map(({ what, reason }) => [what, reason]);
  expect(found).toEqual(skipped.map(([what, why]) => [what, expect.stringContaining(why ?? '') as string]));
  expect(recorder.notes[0]?.slice(0, note?.length)).toBe(note);
  expect([...servers.keys()]).toEqual(skipped.length === 0 ? [name] : []);
  for (const server of servers.values()) await server[Symbol.asyncDispose]();
});
