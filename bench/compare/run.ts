import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { mean, median } from 'simple-statistics';
import { Workloads } from '../workload/workload.js';
import type { CompareOptions } from './options.js';
import { exitCodeOf, findingsOf, MIN_RESTARTS, type Finding, type Outcome } from './outcome.js';
import { measurePair, type Case, type Restart } from './pair.js';
import { buildTree, removeTree, type Tree } from './trees.js';

/** The required precision of effects within a pair, as a fraction of the effect to detect. */
const PRECISION = 1 / 4;

/** Some 20 µs of planted work. */
const TRIAL_ROUNDS = 600;

/** Two built versions, and the requests that they get. */
export interface Built {
  readonly trees: readonly [a: Tree, b: Tree];
  readonly workloads: Workloads;
}

/** Builds two versions, calls a function with them, and removes them. If both are the same, builds it once. */
export async function withVersions<Result>(
  versions: readonly [string, string],
  say: (what: string) => void,
  use: (built: Built) => Promise<Result>,
): Promise<Result> {
  const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-compare-'));
  const build = (version: string, name: string) => {
    say(`building ${version}`);
    return buildTree(version, path.join(directory, name));
  };
  try {
    const a = build(versions[0], 'a');
    const b = versions[0] === versions[1] ? a : build(versions[1], 'b');
    return await use({ trees: [a, b], workloads: new Workloads(directory) });
  } finally {
    for (const name of ['a', 'b']) removeTree(path.join(directory, name));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Measures pair after pair of processes, until the result is clear or the time is over. */
export async function compareVersions(
  { trees, workloads }: Built,
  { cases, detect, gates, minutes, planted, workers }: Omit<CompareOptions, 'versions' | 'out'>,
  say: (what: string) => void,
): Promise<Outcome> {
  const started = performance.now();
  const seconds = () => (performance.now() - started) / 1000;
  const measured = new Map(cases.map((one) => [one, [] as Restart[]]));
  const plantedIn = new Map<Case, number>();
  const others: number[] = [];
  const burnt: number[] = [];
  for (let restart = 1; ; restart++) {
    for (const [one, restarts] of measured) {
      if (planted > 0 && !plantedIn.has(one)) {
        // First measure what a request costs, and what the rounds cost under the same load: without load they cost
        // less.
        const plan = { precision: 1, isSwapped: false, plantedRounds: TRIAL_ROUNDS, workers };
        const trial = await measurePair(trees, one, workloads, plan);
        plantedIn.set(one, Math.max(1, Math.round((TRIAL_ROUNDS * planted) / shareOf(trial))));
      }
      const result = await measurePair(trees, one, workloads, {
        ...{ precision: PRECISION * detect, isSwapped: restart % 2 === 0 },
        ...{ plantedRounds: plantedIn.get(one) ?? 0, workers },
      });
      restarts.push(result);
      others.push(mean(result.others));
      if (result.planted !== null) burnt.push(shareOf(result));
      const effect = 100 * Math.expm1(result.effects.cpu);
      say(`restart ${restart}, ${one.traffic} depth ${one.depth}: CPU ${effect.toFixed(1)} %`);
    }
    if (restart < MIN_RESTARTS) continue;
    const findings: Finding[] = [...measured].flatMap(([one, restarts]) =>
      findingsOf(one, restarts, detect, gates),
    );
    if (exitCodeOf(findings) === 2 && seconds() < 60 * minutes) continue;
    return {
      ...{ versions: [trees[0].name, trees[1].name], detect, planted, restarts: restart },
      ...{ seconds: seconds(), findings, others, burnt: burnt.length === 0 ? null : median(burnt) },
    };
  }
}

/** The planted work as a share of the rest of a request. */
const shareOf = ({ planted }: Restart) =>
  planted === null ? Number.NaN : planted.work / (planted.request - planted.work);
