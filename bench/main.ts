import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import path from 'node:path';
import { measureFloor } from './measure/floor.js';
import { Watch } from './measure/watch.js';
import { limitsExceeded } from './report/bars.js';
import { renderReport } from './report/report.js';
import { renderTable } from './report/table.js';
import { readOptions, USAGE, type Options } from './run/options.js';
import { ROOT, runMain, scratchFolder } from './run/programs.js';
import { Recorder, type Bench, type Suite } from './run/suite.js';
import { describeCommit, finderOf, RESULTS_SCHEMA, type Results } from './run/results.js';
import { batch } from './suites/batch.js';
import { behind } from './suites/behind.js';
import { client } from './suites/client.js';
import { engines } from './suites/engines.js';
import { gate } from './suites/gate.js';
import { ladder } from './suites/ladder.js';
import { latency } from './suites/latency.js';
import { overload } from './suites/overload.js';
import { peers } from './suites/peers.js';
import { throughput } from './suites/throughput.js';
import { urlSuite } from './suites/url.js';
import { usage } from './suites/usage.js';
import { Workloads } from './workload/workload.js';

/** Tests the generators on servers whose latencies, stalls and wrong answers are known. */
const generators: Suite = {
  name: 'generators',
  about: 'whether the load generators see every stall, refusal and wrong answer: their tests',
  run: async ({ say }) => {
    const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--config', 'vitest.smoke.config.ts'];
    const tests = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
    const [code] = (await once(tests, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`the tests of the generators failed (exit code ${code})`);
    say('generators · tested');
  },
};

const DEFAULT_SUITES: readonly Suite[] = [throughput, latency, gate];

const OTHERS = [batch, behind, client, ladder, overload, usage, engines, peers, generators];
const ALL_SUITES: readonly Suite[] = [...DEFAULT_SUITES, ...OTHERS];

const SMOKE_SUITES: readonly Suite[] = [throughput, gate, generators];

/** How often a smoke run repeats the suites in which a figure is above its limit. */
const REPEATS = 2;

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options.show !== null) {
    const list = ALL_SUITES.map(({ name, about }) => `${name.padEnd(12)} ${about}\n`).join('');
    process.stdout.write(options.show === 'help' ? `${USAGE}\nSuites:\n${list}` : list);
    return 0;
  }
  const suites = options.url === null ? choose(options) : [await urlSuite(options.url)];
  const results = await measure(options, suites);
  const name = `${results.startedAt.slice(0, 19).replaceAll(':', '')}-${results.commit.slice(0, 9)}`;
  const directory = path.resolve(options.out ?? path.join(ROOT, 'bench', 'results', name));
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'results.json'), `${JSON.stringify(results, null, 1)}\n`);
  writeFileSync(path.join(directory, 'report.html'), await renderReport(results));
  const place = path.relative(process.cwd(), directory) || '.';
  process.stdout.write(`${renderTable(results)}\n${place}/ has results.json and report.html\n`);
  return conclude(results);
}

async function measure({ plan }: Options, suites: readonly Suite[]): Promise<Results> {
  const startedAt = new Date().toISOString();
  const start = performance.now();
  const seconds = () => Math.round((performance.now() - start) / 1000);
  const recorder = new Recorder(() => measureFloor());
  using scratch = scratchFolder();
  // What affects the figures besides the commit, which has the versions of all packages.
  const processor = cpus()[0]?.model.trim() ?? 'unknown';
  const machine = { processor, cores: availableParallelism(), node: process.versions.node };
  using watch = Watch.withFloors();
  const bench: Bench = {
    ...{ plan, recorder, workloads: new Workloads(scratch.folder) },
    watch: async (id, pid, run, cores) => {
      const { value, ...disturbance } = await watch.during([pid], run, cores);
      recorder.surround(id, disturbance);
      return value;
    },
    say: (what) => process.stderr.write(`${String(seconds()).padStart(4)} s  ${what}\n`),
  };
  recorder.measureFloor();
  for (const suite of suites) await runSuite(suite, bench);
  for (let again = 0; plan.mode === 'smoke' && again < REPEATS; again++) {
    const exceeded = limitsExceeded(finderOf({ figures: recorder.figures() }));
    for (const suite of suites)
      if (exceeded.some((limit) => limit.suite === suite.name)) await runSuite(suite, bench);
  }
  const figures = recorder.figures();
  const asked = process.argv.slice(2).join(' ');
  return {
    ...{ schema: RESULTS_SCHEMA, startedAt, seconds: seconds(), mode: plan.mode, machine },
    ...describeCommit(),
    // Without the folder of the results: documents quote this command, and the folder is only on this machine.
    command: `npm run bench -- ${asked.replace(/ ?--out[ =]\S+/, '')}`.replace(/ -- ?$/, ''),
    floorMicroseconds: figures.find(({ id }) => id === 'floor/verify')?.median ?? Number.NaN,
    ...{ figures, wrongVerdicts: recorder.wrongVerdicts, interference: recorder.interference },
    ...{ skipped: recorder.skipped, notes: recorder.notes },
  };
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
  for (const { where, count, first } of results.wrongVerdicts)
    process.stderr.write(`VOID: ${count} wrong answers in ${where}; the first: ${first}\n`);
  if (results.wrongVerdicts.length > 0) return 1;
  if (results.mode !== 'smoke') return 0;
  const exceeded = limitsExceeded(finderOf(results));
  for (const { message } of exceeded) process.stderr.write(`LIMIT: ${message}\n`);
  return exceeded.length > 0 ? 1 : 0;
}

await runMain('bench', main);
