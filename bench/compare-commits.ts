import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median, spread } from './measure/statistics.js';
import { ROOT } from './paths.js';
import type { Figure, Results } from './results.js';

const DEFAULT_OPTIONS = [
  '--only',
  'in-process,closed-loop',
  '--depths',
  '1,4,16',
  '--connections',
  '32',
  '--runs',
  '1',
];

const run = (command: string, args: readonly string[], cwd: string) =>
  execFileSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'], encoding: 'utf8' });

/**
 * Builds two commits in work trees and measures them in turn, A B A B …, with the suite of this working copy: so what
 * the machine does meanwhile meets both alike, and both are measured by the same rule.
 *
 * @returns one result each, with the samples of all rounds
 */
export function measureCommits(
  commits: readonly [string, string],
  rounds: number,
  options: readonly string[],
): [Results, Results] {
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`--rounds has ${rounds}, expected a whole number above 0`);
  const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-commits-'));
  const trees = commits.map((_, at) => path.join(directory, at === 0 ? 'a' : 'b'));
  try {
    for (const [at, commit] of commits.entries()) prepare(commit, trees[at] as string);
    const results: [Results[], Results[]] = [[], []];
    for (let round = 1; round <= rounds; round++) {
      for (const at of [0, 1] as const) {
        process.stderr.write(`round ${round} of ${rounds}: ${commits[at]}\n`);
        results[at].push(measure(trees[at] as string, path.join(directory, `${at}-${round}`), options));
      }
    }
    return [merge(results[0]), merge(results[1])];
  } finally {
    for (const tree of trees) {
      if (existsSync(tree)) run('git', ['worktree', 'remove', '--force', tree], ROOT);
    }
    rmSync(directory, { recursive: true, force: true });
  }
}

function prepare(commit: string, tree: string): void {
  run('git', ['worktree', 'add', '--detach', tree, commit], ROOT);
  rmSync(path.join(tree, 'bench'), { recursive: true, force: true });
  cpSync(path.join(ROOT, 'bench'), path.join(tree, 'bench'), {
    recursive: true,
    filter: (file) => !/bench\/(results|\.build)(\/|$)/.test(file),
  });
  const lockfiles = [ROOT, tree].map((root) => readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  // The suite needs its tools; a commit with other dependencies gets its own.
  if (lockfiles[0] === lockfiles[1])
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(tree, 'node_modules'));
  else run('npm', ['ci', '--no-audit', '--no-fund'], tree);
  const tsc = path.join(tree, 'node_modules', 'typescript', 'bin', 'tsc');
  run(process.execPath, [tsc, '-p', 'tsconfig.build.json'], tree);
  try {
    run(process.execPath, [tsc, '-p', 'bench'], tree);
  } catch {
    process.stderr.write(
      `${commit}: the suite does not fit this commit in every place; what cannot run is skipped\n`,
    );
  }
}

function measure(tree: string, out: string, options: readonly string[]): Results {
  const program = path.join(tree, 'bench', '.build', 'bench', 'main.js');
  run(process.execPath, [program, ...(options.length > 0 ? options : DEFAULT_OPTIONS), '--out', out], tree);
  return JSON.parse(readFileSync(path.join(out, 'results.json'), 'utf8')) as Results;
}

/** The samples of several results of one commit together. */
export function merge(results: readonly Results[]): Results {
  const [first] = results;
  if (first === undefined) throw new RangeError('no results to put together');
  const figures = first.figures.map((figure): Figure => {
    const same = results.flatMap((one) => one.figures.filter(({ id }) => id === figure.id));
    const samples = same.flatMap((one) => one.samples);
    const samplesInFloors =
      figure.samplesInFloors === null ? null : same.flatMap((one) => one.samplesInFloors ?? []);
    return {
      ...figure,
      ...{ samples, median: median(samples), spread: spread(samples), samplesInFloors },
      floors: samplesInFloors === null ? null : median(samplesInFloors),
    };
  });
  return { ...first, figures, floorMicroseconds: median(results.map((one) => one.floorMicroseconds)) };
}
