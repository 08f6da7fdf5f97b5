import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { ROOT, scratchFolder } from '../run/programs.js';
import { Workloads } from '../workload/workload.js';
import { effectOf, verdictOf, type Verdict } from './effects.js';
import { CONFIDENCE, MIN_RESTARTS } from './outcome.js';
import { measurePair } from './pair.js';
import { buildTree, removeTree, type Tree } from './trees.js';

/** The smallest slow-down that fails a build: 10 %, as a logarithm. */
export const LIMIT = Math.log(1.1);
const SECONDS = 42;
const BUILD_MS = 25_000;
const CASE = { traffic: 'warm', depth: 4 } as const;

/**
 * Whether this working copy takes more processor time than its parent. It does if the whole interval says so, and the
 * estimate reaches {@link LIMIT}: a build must not fail for less.
 *
 * @param effects of pairs of processes, as logarithms
 */
export function checkParent(effects: readonly number[]): Verdict {
  if (effects.length < MIN_RESTARTS) return 'cannot tell';
  const effect = effectOf(effects, CONFIDENCE);
  const verdict = verdictOf(effect, LIMIT);
  return verdict === 'regression' && effect.estimate < LIMIT ? 'cannot tell' : verdict;
}

/**
 * Compares this working copy with the commit before it, for CI: within some 45 s, whatever the machine does.
 *
 * @returns 1 if the working copy is slower; 0 if it is not, if the result is unclear, or if there is nothing to compare
 */
export async function compareWithParent(say: (what: string) => void): Promise<0 | 1> {
  const started = performance.now();
  const reason = whyNot();
  if (reason !== null) {
    say(`no comparison with the parent commit: ${reason}`);
    return 0;
  }
  using scratch = scratchFolder();
  const folder = path.join(scratch.folder, 'parent');
  try {
    const parent = buildTree('HEAD^', folder, { mayInstall: false, timeoutMs: BUILD_MS });
    const effects = await measure([parent, { name: 'working copy', folder: ROOT }], scratch.folder, started);
    const verdict = checkParent(effects);
    const shown = effects.map((value) => `${(100 * Math.expm1(value)).toFixed(1)} %`).join(', ');
    say(`processor time of a warm request, depth 4, against ${parent.name}, by pair of processes: ${shown}`);
    say(CONCLUSIONS[verdict]);
    return verdict === 'regression' ? 1 : 0;
  } catch (error) {
    say(`cannot tell whether it is slower than its parent: ${(error as Error).message}`);
    return 0;
  } finally {
    removeTree(folder);
  }
}

const CONCLUSIONS: Readonly<Record<Verdict, string>> = {
  regression:
    'REGRESSION: slower by 10 % or more; look closer with npm run bench:compare, or npm run bench:profile',
  'no regression': 'no slow-down of 10 %',
  'cannot tell': 'cannot tell, which is not a failure',
};

/** Measures pairs until the result is clear, or there is no time for another one. */
async function measure(trees: readonly [Tree, Tree], directory: string, started: number): Promise<number[]> {
  const workloads = new Workloads(directory);
  const effects: number[] = [];
  let longest = 0;
  while (checkParent(effects) === 'cannot tell') {
    const start = performance.now();
    if ((start - started + longest) / 1000 > SECONDS) break;
    const plan = { isSwapped: effects.length % 2 === 1, precision: Infinity, isOnlyCpu: true };
    effects.push((await measurePair(trees, CASE, workloads, plan)).measured.cpu.effect);
    longest = Math.max(longest, performance.now() - start);
  }
  return effects;
}

/** Why there is nothing to compare; `null` if there is something. */
function whyNot(): string | null {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    git('rev-parse', '--verify', 'HEAD^');
  } catch {
    return 'there is no parent in this clone (is its depth 1?)';
  }
  try {
    git('diff', '--quiet', 'HEAD^', '--', 'src', 'package-lock.json');
    return 'src/ and the packages are the same';
  } catch {
    return null;
  }
}
