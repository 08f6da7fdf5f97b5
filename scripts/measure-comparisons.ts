// Judges bench:compare: it compares this build with itself, one side slowed by a known share, beside a busy neighbour.
// Some 50 minutes with nothing else: `npm run compile && node .build/scripts/measure-comparisons.js [runs of each]`
import { spawn } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { hodgesLehmann } from '../bench/compare/effects.js';
import { measurePair, type Case } from '../bench/compare/pair.js';
import { comparePairs } from '../bench/compare/run.js';
import { ROOT, scratchFolder } from '../bench/run/programs.js';
import { Workloads } from '../bench/workload/workload.js';

const runs = Number(process.argv[2] ?? 10);
const CASE: Case = { traffic: 'warm', depth: 4 };
/** What is planted, in percent, and `--detect`. */
const PLANTED = [
  [0, 5],
  [3, 3],
  [5, 5],
  [10, 5],
] as const;
/** Work that slows a request by some fifth, for the calibration. */
const LARGE = 20_000;
const CALIBRATIONS = 3;
const MAX_MS = 10 * 60_000;

const planted = pathToFileURL(path.join(ROOT, '.build/test/bench/planted-process.js')).href;
// Both sides have the same code, so that nothing but the work differs.
const slowed = (rounds: number) => ['--import', `${planted}?rounds=${Math.round(rounds)}`];
const tree = { name: 'this', folder: ROOT };
using scratch = scratchFolder();
const workloads = new Workloads(scratch.folder);

const neighbour = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
process.once('exit', () => neighbour.kill('SIGKILL'));

const pairWith = (rounds: number) => (one: Case, plan: Parameters<typeof measurePair>[3]) =>
  measurePair([tree, tree], one, workloads, { ...plan, nodeArgs: [slowed(0), slowed(rounds)] });

const effects: number[] = [];
for (let at = 0; at < CALIBRATIONS; at++) {
  const plan = { precision: 0.01, isSwapped: at % 2 === 1, isOnlyCpu: true };
  effects.push((await pairWith(LARGE)(CASE, plan)).measured.cpu.effect);
}
const share = Math.expm1(hodgesLehmann(effects));
console.log(`${LARGE} rounds slow a request by ${(100 * share).toFixed(1)} %`);

const found = PLANTED.map(([percent, detect]) => ({
  percent,
  detect: detect / 100,
  verdicts: [] as string[],
}));
for (let run = 1; run <= runs; run++) {
  for (const { percent, detect, verdicts } of found) {
    const started = performance.now();
    const measure = pairWith((LARGE * percent) / 100 / share);
    const options = { cases: [CASE], detect, gates: ['cpu'] as const };
    const time = AbortSignal.timeout(MAX_MS);
    const { findings, others } = await comparePairs(['A', 'B'], measure, options, time, () => undefined);
    const [finding] = findings;
    verdicts.push(finding?.verdict ?? 'cannot tell');
    const effect = (['low', 'estimate', 'high'] as const).map((at) =>
      (100 * Math.expm1(finding?.effect[at] ?? Number.NaN)).toFixed(1),
    );
    const secs = Math.round((performance.now() - started) / 1000);
    console.log(
      `run ${run}, +${percent} %: ${verdicts.at(-1)} (${effect.join(' … ')} %), ${others.length} pairs in ${secs} s`,
    );
  }
}
for (const { percent, verdicts } of found) {
  const count = (verdict: string) => verdicts.filter((one) => one === verdict).length;
  const rest = `${count('cannot tell')} times it cannot tell`;
  console.log(`+${percent} %: a regression in ${count('regression')} of ${verdicts.length}, ${rest}`);
}
