import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { describeCommit } from './run/environment.js';
import { callTree, hottest, trimProfile, type CpuProfile } from './report/flame-graph.js';
import { checkAnswers } from './load/check-answers.js';
import { bestTool } from './load/measure-load.js';
import { runAutocannon } from './load/autocannon.js';
import { runWrk } from './load/wrk.js';
import { ROOT } from './run/paths.js';
import { startService } from './service/start.js';
import { COLD_CACHE_BYTES, Workloads, type Traffic } from './workload/workload.js';

const USAGE = `npm run bench:profile -- [--traffic warm|cold|mixed|forged|malformed] [--depth 4] [--connections 32] [--seconds 5]

Writes a CPU profile of each thread under load: drop it on https://www.speedscope.app (it stays in the browser), or open it in
Chrome's DevTools.
`;

/** The current time in µs of the clock that CPU profiles use. */
const monotonic = () => Number(process.hrtime.bigint() / 1000n);

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      traffic: { type: 'string', default: 'warm' },
      depth: { type: 'string', default: '4' },
      connections: { type: 'string', default: '32' },
      seconds: { type: 'string', default: '5' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const traffic = values.traffic as Traffic;
  const [depth, connections, seconds] = [values.depth, values.connections, values.seconds].map(Number) as [
    number,
    number,
    number,
  ];
  const { commit } = describeCommit();
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '');
  const directory = path.join(ROOT, 'bench', 'results', `${time}-${commit.slice(0, 9)}-profile`);
  mkdirSync(directory, { recursive: true });
  const scratch = mkdtempSync(path.join(tmpdir(), 'drs-bench-'));
  try {
    const workloads = new Workloads(scratch);
    const env: Record<string, string> =
      traffic === 'cold' ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};
    const service = await startService(env, {
      nodeArgs: ['--cpu-prof', `--cpu-prof-dir=${directory}`, '--cpu-prof-interval=200'],
    });
    const run = bestTool() === 'wrk' ? runWrk : runAutocannon;
    const target = { port: service.port, connections };
    await checkAnswers(service.port, workloads.warm(depth));
    const warmUp = workloads.files(traffic, depth);
    await run(warmUp, { ...target, seconds: 2 });
    workloads.advance(warmUp, 100_000);
    const from = monotonic();
    const result = await run(workloads.files(traffic, depth), { ...target, seconds });
    const until = monotonic();
    await service.stop();
    if (result.wrong > 0) throw new Error(`${result.wrong} wrong answers; the first: ${result.firstWrong}`);
    const threads = readProfiles(directory).map(({ name, profile }) => ({
      name,
      tree: callTree(profile, from, until),
      profile: trimProfile(profile, from, until),
    }));
    for (const file of readdirSync(directory)) rmSync(path.join(directory, file));
    const rate = Math.round(result.requests / result.seconds);
    const about = `${traffic}, depth ${depth}, ${connections} connections: ${rate} requests/s while profiled, commit ${commit.slice(0, 9)}`;
    for (const { name, profile } of threads) {
      const file = `${name.replaceAll(' ', '-')}.cpuprofile`;
      writeFileSync(path.join(directory, file), JSON.stringify(profile));
    }
    process.stdout.write(`${about}\n`);
    for (const { name, tree } of threads) {
      process.stdout.write(`\n${name}: share of its time in a function itself\n`);
      for (const { name: what, where, self } of hottest(tree, 15)) {
        process.stdout.write(`${((100 * self) / tree.total).toFixed(1).padStart(6)} %  ${what}  ${where}\n`);
      }
    }
    process.stdout.write(
      `\n${path.relative(process.cwd(), directory)}/ has a .cpuprofile of each thread: open it in https://www.speedscope.app or Chrome's DevTools\n`,
    );
    return 0;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** One profile for each thread; Node names them CPU.<date>.<time>.<pid>.<thread>.<number>.cpuprofile. */
function readProfiles(directory: string): { name: string; profile: CpuProfile }[] {
  const files = readdirSync(directory).filter((file) => file.endsWith('.cpuprofile'));
  if (files.length === 0)
    throw new Error(`node wrote no profile to ${directory}; did the service end on its own?`);
  return files
    .map((file) => ({ file, thread: Number(file.split('.').at(-3)) }))
    .sort((a, b) => a.thread - b.thread)
    .map(({ file, thread }) => ({
      name: thread === 0 ? 'main thread' : `signature worker ${thread}`,
      profile: JSON.parse(readFileSync(path.join(directory, file), 'utf8')) as CpuProfile,
    }));
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`bench:profile: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
