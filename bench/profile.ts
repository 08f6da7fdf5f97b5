import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkAnswers } from './load/measure-load.js';
import { runClosedLoop } from './load/open-loop.js';
import { monotonic, profilingArgs, readProfiles, selfTimes, trimProfile } from './measure/cpu-profile.js';
import { ROOT } from './run/programs.js';
import { describeCommit } from './run/results.js';
import { startService } from './service/start.js';
import { COLD_CACHE_BYTES, Workloads, type Traffic } from './workload/workload.js';

const USAGE = `npm run bench:profile -- [--traffic warm|cold|forged|malformed] [--depth 4] [--connections 32] [--seconds 5]

Writes a CPU profile of each thread under load: drop it on https://www.speedscope.app (it stays in the browser), or open it in
Chrome's DevTools.
`;

async function main(): Promise<void> {
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
    return;
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
    const service = await startService(
      traffic === 'cold' ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {},
      { nodeArgs: profilingArgs(directory) },
    );
    const target = { port: service.port, connections };
    await checkAnswers(service.port, workloads.warm(depth));
    const warmUp = workloads.files(traffic, depth);
    await runClosedLoop(warmUp, { ...target, seconds: 2 });
    workloads.advance(warmUp, 100_000);
    const from = monotonic();
    const result = await runClosedLoop(workloads.files(traffic, depth), { ...target, seconds });
    const until = monotonic();
    await service.stop();
    if (result.wrong > 0) throw new Error(`${result.wrong} wrong answers; the first: ${result.firstWrong}`);
    const threads = readProfiles(directory);
    for (const file of readdirSync(directory)) rmSync(path.join(directory, file));
    const rate = Math.round(result.requests / result.seconds);
    process.stdout.write(
      `${traffic}, depth ${depth}, ${connections} connections: ${rate} requests/s while profiled, commit ${commit.slice(0, 9)}\n`,
    );
    for (const { name, profile } of threads) {
      const trimmed = trimProfile(profile, from, until);
      const file = `${name.replaceAll(' ', '-')}.cpuprofile`;
      writeFileSync(path.join(directory, file), JSON.stringify(trimmed));
      const times = selfTimes(trimmed, ({ functionName, url, lineNumber }) => {
        const where = url.replace(/^.*\/(dist|node_modules)\//, '$1/');
        return `${functionName || '(anonymous)'}  ${where === '' ? '' : `${where}:${lineNumber + 1}`}`;
      });
      const total = times.reduce((sum, [, self]) => sum + self, 0);
      process.stdout.write(`\n${name}: share of its time in a function itself\n`);
      for (const [what, self] of times.slice(0, 15))
        process.stdout.write(`${((100 * self) / total).toFixed(1).padStart(6)} %  ${what}\n`);
    }
    process.stdout.write(
      `\n${path.relative(process.cwd(), directory)}/ has a .cpuprofile of each thread: open it in https://www.speedscope.app or Chrome's DevTools\n`,
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

try {
  await main();
} catch (error) {
  process.stderr.write(`bench:profile: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
