// Plants faults in the source and checks whether a test fails: `npm run mutation -- protocol gate`, or for files:
// `npm run mutation -- src/protocol/jcs.ts`. Without arguments it runs for all eight folders, which takes hours.
// `--changed` selects the lines that differ from a commit (`--since`, default main), and fails below 90 %. `--budget <minutes>`
// limits the time. `--tests protocol/json,protocol/jwt` runs only these test files, which is quicker where a file has tests of its
// own; the score is then a lower bound.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

const LEFT_OUT = [
  // Their tests run a real Redis and wait for it. With a fault in each line, that would take hours.
  'src/usage/redis-{mark,records,store}.ts',
  'src/revocation/store/redis-{log,store,transfer}.ts',
  'src/**/*worker*.{ts,cts}',
  // Start, signals, sockets: only a process of its own shows them. scripts/planted-faults.mjs plants
  // faults in these.
  'src/service/{check,early-signals,main,service}.ts',
  'src/service/observe/tracing.ts',
  'src/service/http/{front-end,load-front-end,uws*,node/*,listen/{certificate,unix-socket}}.ts',
  'src/service/grpc/{open,server}.ts',
  // Tables and files that are read once.
  'src/service/observe/build-info.ts',
];
/** @type {(text: string) => unknown} */
const parse = JSON.parse;
const FOLDERS = ['protocol', 'verify', 'gate', 'signatures', 'usage', 'trust', 'revocation', 'service'];
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changed: { type: 'boolean', default: false },
    since: { type: 'string', default: 'main' },
    budget: { type: 'string', default: '0' },
    concurrency: { type: 'string', default: '1' },
    force: { type: 'boolean', default: false },
    tests: { type: 'string' },
  },
});
const budgetMs = Number(values.budget) * 60_000;
if (!(budgetMs >= 0)) {
  console.error(`--budget is ${JSON.stringify(values.budget)}, expected minutes`);
  process.exit(2);
}
const end = budgetMs > 0 ? Date.now() + budgetMs : Infinity;

const OUT_OF_TIME = 'not looked at, since the budget was over';

/** What to mutate, by folder. @type {Map<string, string[]>} */
const wanted = new Map();
for (const name of values.changed ? changedLines() : positionals.length > 0 ? positionals : FOLDERS) {
  const [, folder, file] = /^(?:src\/)?([^/]+)(?:\/(.+))?$/.exec(name) ?? [];
  if (folder === undefined || !FOLDERS.includes(folder)) {
    if (values.changed) continue;
    console.error(`${name}: expected a folder or a file of src/{${FOLDERS.join(',')}}`);
    process.exit(2);
  }
  const pattern = file === undefined ? `src/${folder}/**/*.ts` : `src/${folder}/${file}`;
  wanted.set(folder, [...(wanted.get(folder) ?? []), pattern]);
}
if (wanted.size === 0)
  console.log(`no line to plant a fault in has changed in src/{${FOLDERS.join(',')}} since ${values.since}`);

mkdirSync('reports/mutation', { recursive: true });
/** @type {string[]} */
const scores = [];
// `service` comes last: its tests take longer than those of all others.
for (const folder of FOLDERS) {
  const patterns = wanted.get(folder);
  if (patterns === undefined) continue;
  const report = `reports/mutation/${values.changed ? 'changed-' : ''}${folder}.json`;
  const outcome = Date.now() < end ? await stryker(folder, patterns, report) : OUT_OF_TIME;
  scores.push(outcome === 'ended' && existsSync(report) ? scoreOf(folder, report) : `${folder}: ${outcome}`);
  console.log(scores.at(-1), ...(outcome === OUT_OF_TIME ? patterns : []));
}
if (scores.length > 0) console.log(`\n${scores.join('; ')}`);

/** @returns the changed lines as Stryker selects them: `src/a/b.ts:10-12` */
function changedLines() {
  const base = execFileSync('git', ['merge-base', values.since, 'HEAD'], { encoding: 'utf8' }).trim();
  const text = execFileSync('git', ['diff', '--unified=0', '--diff-filter=d', base, '--', 'src'], {
    encoding: 'utf8',
  });
  let file = '';
  /** @type {string[]} */
  const found = [];
  for (const line of text.split('\n')) {
    file = /^\+\+\+ b\/(.+)$/.exec(line)?.[1] ?? file;
    const [, from, count = '1'] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    if (from === undefined || count === '0' || !file.endsWith('.ts')) continue;
    // Stryker would run all tests to find that there is nothing to plant.
    if (LEFT_OUT.some((pattern) => path.matchesGlob(file, pattern))) continue;
    found.push(`${file}:${from}-${Number(from) + Number(count) - 1}`);
  }
  return found;
}

/**
 * Runs Stryker on one folder. If it does not finish within the budget, that is reported, but is not a failure.
 * @param {string} folder @param {string[]} patterns @param {string} report
 */
async function stryker(folder, patterns, report) {
  const config = /** @type {object} */ (parse(readFileSync('stryker.config.json', 'utf8')));
  const file = `reports/mutation/${folder}.config.json`;
  writeFileSync(
    file,
    JSON.stringify({
      ...config,
      mutate: [...patterns, ...LEFT_OUT.map((pattern) => `!${pattern}`)],
      concurrency: Number(values.concurrency),
      incremental: !values.changed,
      incrementalFile: `reports/mutation/${folder}.incremental.json`,
      force: values.force,
      jsonReporter: { fileName: report },
    }),
  );
  const child = spawn(process.execPath, ['node_modules/@stryker-mutator/core/bin/stryker.js', 'run', file], {
    stdio: 'inherit',
    env: {
      ...process.env,
      MUTATED_FOLDER: folder,
      ...(values.tests !== undefined && { MUTATION_TESTS: values.tests }),
    },
  });
  const runOut = new AbortController();
  const hasRunOut = runOut.signal;
  const timer =
    end === Infinity
      ? undefined
      : setTimeout(
          () => {
            runOut.abort();
            child.kill('SIGINT');
          },
          Math.max(0, end - Date.now()),
        );
  const exit = /** @type {[number | null]} */ (await once(child, 'exit'));
  const [code] = exit;
  clearTimeout(timer);
  if (hasRunOut.aborted) {
    // Stryker leaves its copy of this folder where it is ended.
    rmSync('.stryker-tmp', { recursive: true, force: true });
    return OUT_OF_TIME;
  }
  if (code !== 0) {
    process.exitCode = 1;
    return `Stryker ended with ${code}`;
  }
  return 'ended';
}

/**
 * A line with the score of a folder, from Stryker's report.
 * @param {string} folder @param {string} report
 */
function scoreOf(folder, report) {
  /** @type {Record<string, number>} */
  const counts = {};
  const { files } = /** @type {{ files: Record<string, { mutants: { status: string }[] }> }} */ (
    parse(readFileSync(report, 'utf8'))
  );
  for (const { mutants } of Object.values(files)) {
    for (const { status } of mutants) counts[status] = (counts[status] ?? 0) + 1;
  }
  const { Killed = 0, Timeout = 0, Survived = 0, NoCoverage = 0 } = counts;
  const killed = Killed + Timeout;
  const all = killed + Survived + NoCoverage;
  if (all === 0) return `${folder}: nothing to plant`;
  if (values.changed && killed / all < 0.9) process.exitCode = 1;
  return `${folder}: ${((100 * killed) / all).toFixed(1)} % of ${all} (${JSON.stringify(counts)})`;
}
