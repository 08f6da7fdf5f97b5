import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { measureFloor } from './measure/floor.js';
import { Watch } from './measure/watch.js';
import { limitsExceeded } from './report/bars.js';
import { renderReport } from './report/report.js';
import { renderTable } from './report/table.js';
import { readOptions, USAGE, type Options } from './run/options.js';
import { ROOT } from './run/programs.js';
import { Recorder } from './run/recorder.js';
import {
  describeCommit,
  describeMachine,
  describeVersions,
  finderOf,
  RESULTS_SCHEMA,
  type Results,
} from './run/results.js';
import type { Bench, Suite } from './run/suite.js';
import { ALL_SUITES, DEFAULT_SUITES, SMOKE_SUITES } from './suites/all.js';
import { Workloads } from './workload/workload.js';

/** How often a smoke run repeats the suites in which a figure is above its limit. */
const REPEATS = 2;

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options.show !== null) {
    const list = ALL_SUITES.map(({ name, about }) => `${name.padEnd(12)} ${about}\n`).join('');
    process.stdout.write(options.show === 'help' ? `${USAGE}\nSuites:\n${list}` : list);
    return 0;
  }
  const suites = choose(options);
  const startedAt = new Date();
  const recorder = new Recorder(() => measureFloor());
  const scratch = mkdtempSync(path.join(tmpdir(), 'drs-bench-'));
  const start = performance.now();
  const machine = describeMachine();
  const watch = Watch.start();
  const bench: Bench = {
    ...{ plan: options.plan, recorder, workloads: new Workloads(scratch) },
    watch: async (id, pids, measure, cores) => {
      const { value, interference } = await watch.during(pids, measure, cores);
      recorder.surround(id, interference);
      return value;
    },
    say: (what) => {
      const seconds = ((performance.now() - start) / 1000).toFixed(0).padStart(4);
      process.stderr.write(`${seconds} s  ${what}\n`);
    },
  };
  try {
    recorder.measureFloor();
    for (const suite of suites) await runSuite(suite, bench);
    for (let again = 0; options.plan.mode === 'smoke' && again < REPEATS; again++) {
      const exceeded = new Set(
        limitsExceeded(finderOf({ figures: recorder.figures() })).map(({ suite }) => suite),
      );
      for (const suite of suites) if (exceeded.has(suite.name)) await runSuite(suite, bench);
    }
  } finally {
    watch.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
  const { commit, isDirty } = describeCommit();
  const name = `${startedAt.toISOString().slice(0, 19).replaceAll(':', '')}-${commit.slice(0, 9)}`;
  const directory = path.resolve(options.out ?? path.join(ROOT, 'bench', 'results', name));
  mkdirSync(directory, { recursive: true });
  const figures = recorder.figures();
  const results: Results = {
    schema: RESULTS_SCHEMA,
    startedAt: startedAt.toISOString(),
    seconds: Math.round((performance.now() - start) / 1000),
    // Without the folder of the results: documents quote this command, and the folder is only on this machine.
    command: `npm run bench -- ${process.argv.slice(2).join(' ')}`
      .replace(/ ?--out[ =]\S+/, '')
      .replace(/ -- ?$/, ''),
    mode: options.plan.mode,
    ...{ commit, isDirty, machine, versions: describeVersions() },
    isVoid: recorder.wrongVerdicts.length > 0,
    wrongVerdicts: recorder.wrongVerdicts,
    floorMicroseconds: figures.find(({ id }) => id === 'floor/verify')?.median ?? Number.NaN,
    figures,
    interference: recorder.interference,
    skipped: recorder.skipped,
    notes: recorder.notes,
  };
  writeFileSync(path.join(directory, 'results.json'), `${JSON.stringify(results, null, 1)}\n`);
  writeFileSync(path.join(directory, 'report.html'), await renderReport(results));
  process.stdout.write(renderTable(results));
  process.stdout.write(
    `\n${path.relative(process.cwd(), directory) || '.'}/ has results.json and report.html\n`,
  );
  return conclude(results);
}

function choose({ only, plan }: Options): readonly Suite[] {
  if (only === null) return plan.mode === 'smoke' ? SMOKE_SUITES : DEFAULT_SUITES;
  const unknown = only.filter((name) => !ALL_SUITES.some((suite) => suite.name === name));
  if (unknown.length > 0) {
    const names = ALL_SUITES.map(({ name }) => name).join(', ');
    throw new Error(`--only names ${unknown.join(', ')}, expected ${names}`);
  }
  return ALL_SUITES.filter(({ name }) => only.includes(name));
}

/** A suite that cannot run is reported; the others still do. */
async function runSuite(suite: Suite, bench: Bench): Promise<void> {
  try {
    await suite.run(bench);
  } catch (error) {
    process.stderr.write(`${suite.name} stopped: ${(error as Error).stack ?? String(error)}\n`);
    bench.recorder.skip(suite.name, `it stopped: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}

function conclude(results: Results): number {
  for (const { where, count, first } of results.wrongVerdicts) {
    process.stderr.write(`VOID: ${count} wrong answers in ${where}; the first: ${first}\n`);
  }
  if (results.isVoid) return 1;
  if (results.mode !== 'smoke') return 0;
  const exceeded = limitsExceeded(finderOf(results));
  for (const { message } of exceeded) process.stderr.write(`LIMIT: ${message}\n`);
  return exceeded.length > 0 ? 1 : 0;
}

try {
  process.exitCode = (await main()) || process.exitCode || 0;
} catch (error) {
  process.stderr.write(`bench: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
