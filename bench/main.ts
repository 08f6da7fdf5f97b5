import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { sum } from 'simple-statistics';
import { limitsExceeded } from './report/bars.js';
import { PICTURES } from './report/charts.js';
import { renderTable } from './report/table.js';
import { measure, runsOf, SECONDS, secondsOf } from './run/measure.js';
import { readOptions, USAGE, type Options } from './run/options.js';
import { ROOT, runMain } from './run/programs.js';
import { describeCommit, finderOf, type Results } from './run/results.js';
import type { Suite } from './run/suite.js';
import { batch } from './suites/batch.js';
import { behind } from './suites/behind.js';
import { client } from './suites/client.js';
import { engines } from './suites/engines.js';
import { gate } from './suites/gate.js';
import { ladder } from './suites/ladder.js';
import { latency } from './suites/latency.js';
import { overload } from './suites/overload.js';
import { peers } from './suites/peers.js';
import { soak } from './suites/soak.js';
import { throughput } from './suites/throughput.js';
import { urlSuite } from './suites/url.js';
import { usage } from './suites/usage.js';

/** Tests the generators on servers whose latencies, stalls and wrong answers are known. */
const generators: Suite = {
  name: 'generators',
  about: 'whether the load generators see every stall, refusal and wrong answer: their tests',
  maxRuns: 1,
  run: ({ say }) => {
    const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--config', 'vitest.smoke.config.ts'];
    const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
    if (status !== 0) throw new Error(`the tests of the generators failed (exit code ${status})`);
    say('generators · tested');
    return Promise.resolve();
  },
};

const DEFAULT_SUITES: readonly Suite[] = [throughput, latency, gate];

const OTHERS = [batch, behind, client, ladder, overload, usage, engines, peers, generators, soak];
const ALL_SUITES: readonly Suite[] = [...DEFAULT_SUITES, ...OTHERS];

const SMOKE_SUITES: readonly Suite[] = [throughput, gate, generators];

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options.show !== null) {
    process.stdout.write(`${options.show === 'help' ? `${USAGE}\nSuites:\n` : ''}${list()}`);
    return 0;
  }
  const suites = options.url === null ? choose(options) : [await urlSuite(options.url)];
  const about = { startedAt: new Date().toISOString(), ...describeCommit() };
  const name = `${about.startedAt.slice(0, 19).replaceAll(':', '')}-${about.commit.slice(0, 9)}`;
  const directory = path.resolve(options.out ?? path.join(ROOT, 'bench', 'results', name));
  const results = await measure(options, suites, directory, about);
  writeFileSync(path.join(directory, 'results.json'), `${JSON.stringify(results, null, 1)}\n`);
  for (const [name, draw] of Object.entries(PICTURES)) {
    const svg = await draw(finderOf(results));
    if (svg !== null) writeFileSync(path.join(directory, `${name}.svg`), svg);
  }
  const place = path.relative(process.cwd(), directory) || '.';
  process.stdout.write(`${renderTable(results)}\n${place}/ has results.json, pictures and histograms\n`);
  return conclude(results);
}

function list(): string {
  const lines = ALL_SUITES.map((suite) => {
    const time = suite.name in SECONDS ? ` (${secondsOf(suite)} s a run)` : '';
    return `${suite.name.padEnd(12)} ${suite.about}${time}\n`;
  });
  const { plan } = readOptions(['--all']);
  const all = sum(runsOf(choose({ only: null, plan }), plan.runs).map(({ suite }) => secondsOf(suite)));
  return `${lines.join('')}\n--all: those with a time, ${plan.runs} runs of most; about ${Math.round(all / 60)} minutes\n`;
}

function choose({ only, plan }: Pick<Options, 'only' | 'plan'>): readonly Suite[] {
  if (only === null && plan.mode === 'all') return ALL_SUITES.filter(({ name }) => name in SECONDS);
  if (only === null) return plan.mode === 'smoke' ? SMOKE_SUITES : DEFAULT_SUITES;
  const unknown = only.filter((name) => !ALL_SUITES.some((suite) => suite.name === name));
  if (unknown.length > 0) {
    const names = ALL_SUITES.map(({ name }) => name).join(', ');
    throw new Error(`--only names ${unknown.join(', ')}, expected ${names}`);
  }
  return ALL_SUITES.filter(({ name }) => only.includes(name));
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
