import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median } from 'simple-statistics';
import { ROOT } from '../run/programs.js';
import { Workloads } from '../workload/workload.js';
import { measureProcessorTime } from './pair.js';
import { buildTree, removeTree, type Tree } from './trees.js';

/** The smallest slow-down that fails a build: 10 %, as a logarithm. */
export const LIMIT = Math.log(1.1);
/**
 * Minimum number of pairs of each kind. With four, chance alone puts all pairs of one kind above the others once in 70.
 */
export const MIN_PAIRS = 4;
const MAX_PAIRS = 6;
const SECONDS = 42;
const BUILD_MS = 25_000;
const CASE = { traffic: 'warm', depth: 4 } as const;

/** Effects as logarithms: of this working copy against its parent, and of the parent against itself. */
export interface ParentEffects {
  readonly changed: readonly number[];
  readonly same: readonly number[];
}

/**
 * Whether this working copy takes more processor time than its parent.
 *
 * The comparison of the parent with itself shows how much results differ by chance. A slow-down counts only if every
 * pair with the change is above every pair without it, and their medians are {@link LIMIT} apart.
 */
export function checkParent({ changed, same }: ParentEffects): 'regression' | 'none' | 'cannot tell' {
  if (changed.length < MIN_PAIRS || same.length < MIN_PAIRS) return 'cannot tell';
  const difference = median([...changed]) - median([...same]);
  if (Math.min(...changed) > Math.max(...same) && difference >= LIMIT) return 'regression';
  const scatter = Math.max(...same) - Math.min(...same);
  return scatter < LIMIT && difference < LIMIT ? 'none' : 'cannot tell';
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
  const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-parent-'));
  const folder = path.join(directory, 'parent');
  try {
    const parent = buildTree('HEAD^', folder, { mayInstall: false, timeoutMs: BUILD_MS });
    const effects = await measure([parent, { name: 'working copy', folder: ROOT }], directory, started);
    const verdict = checkParent(effects);
    say(describe(effects, verdict, parent.name));
    return verdict === 'regression' ? 1 : 0;
  } catch (error) {
    say(`cannot tell whether it is slower than its parent: ${(error as Error).message}`);
    return 0;
  } finally {
    removeTree(folder);
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Measures pairs of both kinds in turn, while there is time for another pair. */
async function measure(
  [parent, current]: readonly [Tree, Tree],
  directory: string,
  started: number,
): Promise<ParentEffects> {
  const workloads = new Workloads(directory);
  const effects = { changed: [] as number[], same: [] as number[] };
  let longest = 0;
  for (let pair = 0; pair < 2 * MAX_PAIRS; pair++) {
    const start = performance.now();
    if ((start - started + longest) / 1000 > SECONDS) break;
    const kind = pair % 2 === 0 ? 'changed' : 'same';
    const trees = [parent, kind === 'changed' ? current : parent] as const;
    const isSwapped = Math.floor(pair / 2) % 2 === 1;
    effects[kind].push(await measureProcessorTime(trees, CASE, workloads, isSwapped));
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

function describe(
  { changed, same }: ParentEffects,
  verdict: ReturnType<typeof checkParent>,
  parent: string,
): string {
  const percent = (values: readonly number[]) =>
    values.map((value) => `${(100 * Math.expm1(value)).toFixed(1)} %`).join(', ') || 'none in time';
  const conclusion = {
    regression:
      'REGRESSION: slower by 10 % or more; look closer with npm run bench:compare, or npm run bench:profile',
    none: 'no slow-down of 10 %',
    'cannot tell': 'cannot tell, which is not a failure',
  }[verdict];
  return [
    `processor time of a warm request, depth 4, against ${parent}, by pair of processes: ${percent(changed)}`,
    `${parent} against itself: ${percent(same)}`,
    conclusion,
  ].join('\n');
}
