// Runs test files again and again under conditions in which they might fail: `npm run test:stress -- test/e2e/start.test.ts`.
// Without files it runs all of them, which takes hours. `--changed` selects the test files that differ from a commit
// (`--since`, default main), and those that import a file of test/ that differs. `--times` (5) is how often each file runs in each
// setting, `--setting` names one setting, `--seed` chooses order, time zone and locale, `--budget <minutes>` limits the time.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';

const REPORTS = 'reports/stress';
// As many as run side by side, and a few more.
const FILES_PER_RUN = 8;
const BUSY_LOOPS = 3;
// Far from UTC, and with half hours.
const ZONES = ['Pacific/Kiritimati', 'Asia/Kathmandu', 'America/St_Johns'];
// Where i is no capital I, where 1.5 is 1,5, and where digits may be others.
const LOCALES = ['tr_TR.UTF-8', 'de_DE.UTF-8', 'ar_EG.UTF-8'];
const SETTINGS = ['pinned', 'busy', 'shuffled'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changed: { type: 'boolean', default: false },
    since: { type: 'string', default: 'main' },
    times: { type: 'string', default: '5' },
    setting: { type: 'string', multiple: true, default: SETTINGS },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    budget: { type: 'string', default: '0' },
  },
});
const times = Number(values.times);
const firstSeed = Number(values.seed);
const budgetMs = Number(values.budget) * 60_000;
if (!Number.isInteger(times) || times < 1) refuse(`--times is "${values.times}", expected 1 or more`);
if (!Number.isInteger(firstSeed) || firstSeed < 0)
  refuse(`--seed is "${values.seed}", expected 0 or a positive number`);
if (!(budgetMs >= 0)) refuse(`--budget is "${values.budget}", expected minutes`);
for (const name of values.setting)
  if (!SETTINGS.includes(name)) refuse(`--setting is "${name}", expected one of ${SETTINGS.join(', ')}`);
if (values.setting.includes('pinned') && spawnSync('taskset', ['-V']).error !== undefined)
  refuse('taskset is missing (Debian has it in util-linux); install it, or name the other settings');
const endsAt = budgetMs > 0 ? Date.now() + budgetMs : Infinity;

const all = readdirSync('test', { recursive: true, encoding: 'utf8' }).map((name) =>
  path.posix.join('test', name.split(path.sep).join('/')),
);
const files = values.changed ? changedTests() : all.filter((name) => isTest(name) && isWanted(name));
if (files.length === 0) {
  if (!values.changed) refuse(`no test file in ${positionals.join(', ') || 'test/'}`);
  console.log(`no test file differs since ${values.since}`);
  process.exit(0);
}

/** @typedef {{ setting: string, seed: number, files: string[] }} Run */
/** @typedef {{ name: string, status: string, assertionResults: { status: string, fullName: string }[] }} Result */
/** What vitest reports. @typedef {{ numPassedTests: number, testResults: Result[] }} Report */
/** @type {Run[]} */
const runs = [];
for (let round = 0; round < times; round++) {
  for (let at = 0; at < files.length; at += FILES_PER_RUN) {
    for (const setting of values.setting)
      runs.push({ setting, seed: firstSeed + round, files: files.slice(at, at + FILES_PER_RUN) });
  }
}
console.log(
  `${files.length} test files, ${runs.length} runs; ${times} times each: ${values.setting.join(', ')}`,
);
rmSync(REPORTS, { recursive: true, force: true });
mkdirSync(REPORTS, { recursive: true });

/** How often what failed: by file, setting and test. @type {Map<string, { count: number, repeat: string, log: string }>} */
const failures = new Map();
let passed = 0;
let done = 0;
for (const run of runs) {
  if (!(await execute(run, done))) break;
  done++;
}

for (const [name, { count, repeat, log }] of failures)
  console.log(`\n${count} of ${times} times: ${name}\n  log:    ${log}\n  repeat: ${repeat}`);
if (done < runs.length) {
  console.log(
    `\nleft out, since the ${values.budget} minutes are over: ${runs.length - done} of ${runs.length} runs`,
  );
  for (const setting of values.setting) {
    const ran = new Set(runs.slice(0, done).flatMap((run) => (run.setting === setting ? run.files : [])));
    const never = files.filter((file) => !ran.has(file));
    if (never.length > 0) console.log(`  never ${setting}: ${never.join(' ')}`);
  }
}
console.log(`\n${done} runs, ${passed} tests passed, ${failures.size} failed at least once`);
process.exitCode = failures.size > 0 || (done > 0 && passed === 0) ? 1 : 0;

/** @param {string} problem @returns {never} */
function refuse(problem) {
  console.error(problem);
  process.exit(2);
}

/** @param {string} name */
function isTest(name) {
  return name.endsWith('.test.ts');
}

/** @param {string} name */
function isWanted(name) {
  return positionals.length === 0 || positionals.some((wanted) => name.includes(wanted.replace(/^\.\//, '')));
}

/** The test files that differ from the commit, or use a file of test/ that does. */
function changedTests() {
  /** @param {string[]} args */
  const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
  const base = git('merge-base', values.since, 'HEAD');
  const differing = [
    ...git('diff', '--name-only', '--diff-filter=d', base, '--', 'test').split('\n'),
    ...git('ls-files', '--others', '--exclude-standard', '--', 'test').split('\n'),
  ].filter((name) => name !== '');
  const sources = all.filter((name) => /\.(?:ts|mjs|js)$/.test(name));
  const touched = new Set(differing);
  // A set visits what is added to it meanwhile.
  for (const name of touched) {
    for (const source of sources) if (usesOf(source).includes(name)) touched.add(source);
  }
  return [...touched].filter((name) => isTest(name) && isWanted(name));
}

/** The files that a file names by a relative path: what it imports, and what it starts. @param {string} source */
function usesOf(source) {
  const text = readFileSync(source, 'utf8');
  return [...text.matchAll(/['"](\.{1,2}\/[^'"]+)['"]/g)].map(([, name = '']) =>
    path.posix.join(path.posix.dirname(source), name).replace(/\.js$/, '.ts'),
  );
}

/**
 * @param {Run} run @param {number} number
 * @returns {Promise<boolean>} whether it could be finished in time
 */
async function execute({ setting, seed, files }, number) {
  const log = `${REPORTS}/${number}-${setting}.log`;
  const report = `${REPORTS}/${number}-${setting}.json`;
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', ...files, '--reporter=default', '--reporter=json'];
  vitest.push(`--outputFile.json=${report}`);
  /** @type {NodeJS.ProcessEnv} */
  const env = { ...process.env, NO_COLOR: '1' };
  if (setting === 'shuffled') {
    vitest.push('--sequence.shuffle.files', '--sequence.shuffle.tests', `--sequence.seed=${seed}`);
    const LC_ALL = LOCALES[seed % LOCALES.length];
    const options = `${env['NODE_OPTIONS'] ?? ''} --unhandled-rejections=strict`.trim();
    Object.assign(env, { NODE_OPTIONS: options, TZ: ZONES[seed % ZONES.length], LC_ALL, LANG: LC_ALL });
  }
  const command = [process.execPath, ...vitest];
  if (setting === 'pinned') command.unshift('taskset', '-c', '0');
  const loops = Array.from({ length: setting === 'busy' ? BUSY_LOOPS : 0 }, () => {
    return new Worker('for (;;);', { eval: true });
  });
  const output = openSync(log, 'w');
  // In a group of its own, so that what the tests have started can be ended too.
  const [program = '', ...args] = command;
  const child = spawn(program, args, { env, detached: true, stdio: ['ignore', output, output] });
  const exited = once(child, 'exit');
  const end = () => process.kill(-(/** @type {number} */ (child.pid)), 'SIGKILL');
  const stop = () => {
    end();
    process.exit(130);
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const late = new AbortController();
  late.signal.addEventListener('abort', end);
  const timer = endsAt < Infinity && setTimeout(() => late.abort(), Math.max(0, endsAt - Date.now()));
  const [code] = /** @type {[number | null]} */ (await exited);
  if (timer) clearTimeout(timer);
  process.off('SIGINT', stop).off('SIGTERM', stop);
  closeSync(output);
  await Promise.all(loops.map((loop) => loop.terminate()));
  if (late.signal.aborted) return false;
  const failed = failedIn(report, log, code);
  for (const name of failed) {
    const [file = ''] = name.split(' > ');
    const repeat = `npm run test:stress -- --setting ${setting} --seed ${seed} --times 1 ${file}`;
    const { count, ...first } = failures.get(`${name} (${setting})`) ?? { count: 0, repeat, log };
    failures.set(`${name} (${setting})`, { ...first, count: count + 1 });
  }
  const state = failed.size > 0 ? 'FAILED' : 'passed';
  console.log(`${number + 1}/${runs.length} ${setting}, seed ${seed}: ${state} · ${files.join(' ')}`);
  return true;
}

/**
 * What failed in a run, as `file > test`; an error outside of tests, as the file.
 * @param {string} report @param {string} log @param {number | null} code
 */
function failedIn(report, log, code) {
  /** @type {Set<string>} */
  const failed = new Set();
  try {
    const { numPassedTests, testResults } = /** @type {Report} */ (JSON.parse(readFileSync(report, 'utf8')));
    passed += numPassedTests;
    for (const { name, status, assertionResults } of testResults) {
      const file = path.relative('.', name);
      const tests = assertionResults.filter((test) => test.status === 'failed');
      for (const { fullName } of tests) failed.add(`${file} > ${fullName}`);
      if (status === 'failed' && tests.length === 0) failed.add(file);
    }
  } catch {
    failed.add(`the test runner, which ended with ${code} and left no report`);
  }
  const text = readFileSync(log, 'utf8');
  for (const [, file = ''] of text.matchAll(/error originated in "([^"]+)" test file/g)) failed.add(file);
  if (code !== 0 && failed.size === 0) failed.add(`the test runner, which ended with ${code}`);
  return failed;
}
