import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { mean } from 'simple-statistics';
import { Workloads } from '../workload/workload.js';
import { exitCodeOf, findingsOf, MIN_RESTARTS, type Finding, type Outcome } from './outcome.js';
import type { CompareOptions } from './options.js';
import { measurePair, type Case, type Restart } from './pair.js';
import { buildTree, removeTree, type Tree } from './trees.js';

/** Of the effects within a pair: so much smaller than the effect that counts. */
const PRECISION = 1 / 4;

/**
 * Builds both versions and measures pair after pair of processes, until the result can be told or the time is over.
 *
 * @param say tells what is going on
 */
export async function compareVersions(
  options: CompareOptions,
  say: (what: string) => void,
): Promise<Outcome> {
  const { cases, detect, gates, minutes, planted } = options;
  const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-compare-'));
  const trees: Tree[] = [];
  try {
    for (const [at, version] of options.versions.entries()) {
      say(`building ${version}`);
      trees.push(buildTree(version, path.join(directory, at === 0 ? 'a' : 'b')));
    }
    const pair = trees as [Tree, Tree];
    const workloads = new Workloads(directory);
    const started = performance.now();
    const seconds = () => (performance.now() - started) / 1000;
    const measured = new Map(cases.map((one) => [one, [] as Restart[]]));
    const plantedIn = new Map<Case, number>();
    const others: number[] = [];
    let findings: Finding[] = [];
    for (let restart = 1; ; restart++) {
      for (const [one, restarts] of measured) {
        if (planted > 0 && !plantedIn.has(one)) {
          const plan = { precision: 1, isSwapped: false, plantedMicros: 0 };
          const { means } = await measurePair(pair, one, workloads, plan);
          plantedIn.set(one, planted * mean([...means.cpu]));
        }
        const plan = {
          ...{ precision: PRECISION * detect, isSwapped: restart % 2 === 0 },
          plantedMicros: plantedIn.get(one) ?? 0,
        };
        const result = await measurePair(pair, one, workloads, plan);
        restarts.push(result);
        others.push(mean(result.others));
        const effect = 100 * Math.expm1(result.effects.cpu);
        say(`restart ${restart}, ${one.traffic} depth ${one.depth}: CPU ${effect.toFixed(1)} %`);
      }
      if (restart < MIN_RESTARTS) continue;
      findings = [...measured].flatMap(([one, restarts]) => findingsOf(one, restarts, detect, gates));
      if (exitCodeOf(findings) !== 2 || seconds() > 60 * minutes)
        return {
          ...{ versions: [pair[0].name, pair[1].name], detect, planted, restarts: restart },
          ...{ seconds: seconds(), findings, others },
        };
    }
  } finally {
    for (const name of ['a', 'b']) removeTree(path.join(directory, name));
    rmSync(directory, { recursive: true, force: true });
  }
}
