import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { measurePair } from '../../bench/compare/pair.js';
import { ROOT } from '../../bench/paths.js';
import { Workloads } from '../../bench/workload/workload.js';

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-planted-'));
afterAll(() => rmSync(directory, { recursive: true }));
beforeAll(() => {
  execFileSync(process.execPath, [path.join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', 'bench'], {
    cwd: ROOT,
  });
});

it('measures a pair of real services, and finds what is planted in one', async () => {
  // The build that the other tests start, too. What is planted is many times a request, so that no neighbour hides it.
  const tree = { name: 'this', folder: ROOT };
  const { effects, means } = await measurePair(
    [tree, tree],
    { traffic: 'warm', depth: 2 },
    new Workloads(directory),
    { precision: 10, isSwapped: true, plantedMicros: 3000 },
  );
  expect(effects.cpu).toBeGreaterThan(Math.log(2));
  expect(effects['latency p50']).toBeGreaterThan(Math.log(2));
  expect(means.cpu[1]).toBeGreaterThan(means.cpu[0]);
});
