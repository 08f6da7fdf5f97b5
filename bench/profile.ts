import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { profileUnderLoad, selfTimes } from './load/cpu-profile.js';
import { ROOT, runMain, scratchFolder } from './run/programs.js';
import { describeCommit } from './run/results.js';
import { Workloads } from './workload/workload.js';

const USAGE = `npm run bench:profile -- [--traffic warm|cold] [--depth 4] [--connections 32] [--seconds 5]

Writes a CPU profile of each thread under load: drop it on https://www.speedscope.app (it stays in the browser), or open it in
Chrome's DevTools.
`;

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
  const print = (text: string) => process.stdout.write(`${text}\n`);
  if (values.help) {
    print(USAGE);
    return 0;
  }
  const { traffic, depth, connections, seconds } = values;
  if (traffic !== 'warm' && traffic !== 'cold')
    throw new Error(`--traffic has ${JSON.stringify(traffic)}, expected warm or cold`);
  const commit = describeCommit().commit.slice(0, 9);
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '');
  const directory = path.join(ROOT, 'bench', 'results', `${time}-${commit}-profile`);
  using scratch = scratchFolder();
  const target = { connections: Number(connections), seconds: Number(seconds) };
  const profiled = await profileUnderLoad(new Workloads(scratch.folder), traffic, Number(depth), target);
  mkdirSync(directory, { recursive: true });
  const rate = Math.round(profiled.rate);
  const about = `${traffic}, depth ${depth}, ${connections} connections`;
  print(`${about}: ${rate} requests/s while profiled, commit ${commit}`);
  for (const { name, profile } of profiled.threads) {
    writeFileSync(path.join(directory, `${name.replaceAll(' ', '-')}.cpuprofile`), JSON.stringify(profile));
    const times = selfTimes(profile, ({ functionName, url, lineNumber }) => {
      const where = url.replace(/^.*\/(dist|node_modules)\//, '$1/');
      return `${functionName || '(anonymous)'}  ${where === '' ? '' : `${where}:${lineNumber + 1}`}`;
    });
    const total = times.reduce((sum, [, self]) => sum + self, 0);
    print(`\n${name}: share of its time in a function itself`);
    for (const [what, self] of times.slice(0, 15))
      print(`${((100 * self) / total).toFixed(1).padStart(6)} %  ${what}`);
  }
  print(`\n${path.relative(process.cwd(), directory)}/ has a .cpuprofile of each thread`);
  return 0;
}

await runMain('bench:profile', main);
