import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { sum } from 'simple-statistics';
import { selfTimes, trimProfile, type CpuProfile } from './load/cpu-profile.js';
import { checkAnswers } from './load/measure-load.js';
import { runClosedLoop } from './load/open-loop.js';
import { ROOT, runMain, scratchFolder } from './run/programs.js';
import { describeCommit } from './run/results.js';
import { environmentFor, startService } from './service/start.js';
import { Workloads } from './workload/workload.js';

const USAGE = `npm run bench:profile -- [--traffic warm|cold] [--depth 4] [--connections 32] [--seconds 5]

Writes a CPU profile of each thread under load: drop it on https://www.speedscope.app (it stays in the browser), or open it in
Chrome's DevTools.
`;

const WARM_UP_SECONDS = 1.5;
const monotonic = () => Number(process.hrtime.bigint() / 1000n);
const print = (text: string) => process.stdout.write(`${text}\n`);

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
    print(USAGE);
    return 0;
  }
  const { traffic } = values;
  if (traffic !== 'warm' && traffic !== 'cold')
    throw new Error(`--traffic has ${JSON.stringify(traffic)}, expected warm or cold`);
  const [depth, connections] = [Number(values.depth), Number(values.connections)];
  const commit = describeCommit().commit.slice(0, 9);
  using scratch = scratchFolder();
  const workloads = new Workloads(scratch.folder);
  const refuse = ({ wrong, firstWrong }: { wrong: number; firstWrong: string }) => {
    if (wrong > 0) throw new Error(`${wrong} wrong answers while profiled; the first: ${firstWrong}`);
  };
  const load = async () => {
    const nodeArgs = ['--cpu-prof', `--cpu-prof-dir=${scratch.folder}`, '--cpu-prof-interval=200'];
    await using service = await startService(environmentFor(traffic), { nodeArgs });
    refuse(await checkAnswers(service.port, workloads.warm(depth)));
    const run = async (seconds: number) => {
      const workload = workloads.files(traffic, depth);
      const result = await runClosedLoop(workload, { port: service.port, connections, seconds });
      workloads.advance(workload, result.answered + result.warmedUp + connections);
      refuse(result);
      return result;
    };
    await run(WARM_UP_SECONDS);
    const from = monotonic();
    const { answered, seconds } = await run(Number(values.seconds));
    return { from, until: monotonic(), rate: Math.round(answered / seconds) };
  };
  // The profiles are written when the service ends.
  const { from, until, rate } = await load();
  const about = `${traffic}, depth ${depth}, ${connections} connections`;
  print(`${about}: ${rate} requests/s while profiled, commit ${commit}`);
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '');
  const directory = path.join(ROOT, 'bench', 'results', `${time}-${commit}-profile`);
  mkdirSync(directory, { recursive: true });
  // One for each thread: Node names them CPU.<date>.<time>.<pid>.<thread>.<number>.cpuprofile.
  const files = readdirSync(scratch.folder).filter((file) => file.endsWith('.cpuprofile'));
  const threadOf = (file: string) => Number(file.split('.').at(-3));
  for (const file of files.sort((one, other) => threadOf(one) - threadOf(other))) {
    const name = threadOf(file) === 0 ? 'main thread' : `signature worker ${threadOf(file)}`;
    const whole = JSON.parse(readFileSync(path.join(scratch.folder, file), 'utf8')) as CpuProfile;
    const profile = trimProfile(whole, from, until);
    writeFileSync(path.join(directory, `${name.replaceAll(' ', '-')}.cpuprofile`), JSON.stringify(profile));
    print(`\n${name}: share of its time in a function itself`);
    const total = sum([...profile.timeDeltas]);
    for (const [what, self] of selfTimes(profile).slice(0, 15))
      print(`${((100 * self) / total).toFixed(1).padStart(6)} %  ${what}`);
  }
  print(`\n${path.relative(process.cwd(), directory)}/ has a .cpuprofile of each thread`);
  return 0;
}

await runMain('bench:profile', main);
