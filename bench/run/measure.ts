import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { sum } from 'simple-statistics';
import { Watch } from '../measure/watch.js';
import { limitsExceeded } from '../report/bars.js';
import { Workloads } from '../workload/workload.js';
import type { Options } from './options.js';
import { scratchFolder } from './programs.js';
import { finderOf, NOISY, RESULTS_SCHEMA, type Results } from './results.js';
import { Recorder, type Bench, type Recorded, type Suite } from './suite.js';

/** The suites of `--all`, and about how many seconds a run of each takes in it. */
export const SECONDS: Readonly<Record<string, number>> = {
  ...{ throughput: 45, latency: 130, gate: 43, batch: 50, client: 15, overload: 340, usage: 20, engines: 5 },
  ...{ peers: 15 },
};
export const secondsOf = ({ name }: Suite): number => SECONDS[name] ?? 30;

/** How often a smoke run repeats the suites in which a figure is above its limit. */
const REPEATS = 2;
/** Noisy measurements are thrown away as long as there are not more of them than these and a quarter of all: a busy machine stays busy. */
const MAX_THROWN_AWAY = 8;

/** The runs of all suites in turn: those of a figure are spread over the whole time. */
export const runsOf = (suites: readonly Suite[], runs: number) =>
  Array.from({ length: runs }, (_, at) => at + 1).flatMap((run) =>
    suites.filter(({ maxRuns = runs }) => run <= maxRuns).map((suite) => ({ suite, run })),
  );

type Commit = Pick<Results, 'startedAt' | 'commit' | 'isDirty'>;

/** Measures the suites, and says how it goes. What was measured in the same folder before is not measured again. */
export async function measure(
  { plan, url }: Pick<Options, 'plan' | 'url'>,
  suites: readonly Suite[],
  directory: string,
  commit: Commit,
): Promise<Results> {
  const about = openFolder(directory, { plan, url }, commit);
  const start = performance.now();
  const seconds = () => Math.round((performance.now() - start) / 1000);
  const say = (what: string) => process.stderr.write(`${String(seconds()).padStart(4)} s  ${what}\n`);
  using scratch = scratchFolder();
  const workloads = new Workloads(scratch.folder);
  const all = new Recorder();

  /** @returns what is to be kept; `null` if it is to be measured again */
  const measureRun = async (suite: Suite, run: number) => {
    const recorder = new Recorder();
    using watch = new Watch(suite.isAboutLatency !== true);
    const mayRepeat = () => {
      const both = [all.recorded, recorder.recorded];
      const measured = sum(both.map(({ interference }) => interference.length));
      const limit = MAX_THROWN_AWAY + measured / 4;
      return plan.mode !== 'smoke' && sum(both.map(({ thrownAway }) => thrownAway)) < limit;
    };
    recorder.measureFloor();
    const bench: Bench = {
      ...{ plan: { ...plan, runs: 1 }, run, recorder, workloads, say },
      watch: async (id, pids, step) => {
        const { value, ...disturbance } = await watch.during([pids].flat(), step);
        recorder.surround(id, disturbance);
        const { others } = disturbance;
        if (others > NOISY) say(`NOISY: others had ${Math.round(100 * others)} % of the cores during ${id}`);
        return value;
      },
      undisturbed: (step) => recorder.undisturbed(step, mayRepeat),
    };
    let isWhole = true;
    // A suite that cannot run is reported; the others still do.
    try {
      await suite.run(bench);
    } catch (error) {
      process.stderr.write(`${suite.name} stopped: ${(error as Error).stack ?? String(error)}\n`);
      recorder.skip(suite.name, `it stopped: ${(error as Error).message}`);
      process.exitCode = 1;
      isWhole = false;
    }
    all.add(recorder.recorded);
    return isWhole && recorder.recorded.wrongVerdicts.length === 0 ? recorder.recorded : null;
  };

  const runs = runsOf(suites, plan.runs);
  let [expected, took] = [0, 0];
  for (const [at, { suite, run }] of runs.entries()) {
    const file = path.join(directory, `${suite.name}-${run}.json`);
    if (existsSync(file)) {
      all.add(JSON.parse(readFileSync(file, 'utf8')) as Recorded);
      continue;
    }
    const left =
      sum(runs.slice(at).map((one) => secondsOf(one.suite))) * (expected > 0 ? took / expected : 1);
    say(`${at + 1} of ${runs.length}, about ${Math.ceil(left / 60)} minutes left: ${suite.name}, run ${run}`);
    const before = performance.now();
    const recorded = await measureRun(suite, run);
    if (recorded !== null) writeFileSync(file, JSON.stringify(recorded));
    expected += secondsOf(suite);
    took += (performance.now() - before) / 1000;
    // Nothing would count.
    if (all.recorded.wrongVerdicts.length > 0) break;
  }
  for (let again = 1; plan.mode === 'smoke' && again <= REPEATS; again++) {
    const exceeded = limitsExceeded(finderOf({ figures: all.figures() }));
    for (const suite of suites)
      if (exceeded.some((limit) => limit.suite === suite.name)) await measureRun(suite, 1 + again);
  }
  for (const [id, latencies] of all.latencies()) {
    const file = path.join(directory, `${id.replaceAll('/', '-')}.hgrm`);
    writeFileSync(file, latencies.outputPercentileDistribution(5, 1000));
    all.recordLatencies(`${id}/all`, latencies);
    all.record(`${id}/all/max`, latencies.maxValue);
  }
  const figures = all.figures();
  const { skipped, notes, interference, thrownAway, wrongVerdicts } = all.recorded;
  const asked = process.argv.slice(2).join(' ');
  return {
    ...{ schema: RESULTS_SCHEMA, seconds: seconds(), mode: plan.mode, ...about },
    // Without the folder of the results: documents quote this command, and the folder is only on this machine.
    command: `npm run bench -- ${asked.replace(/ ?--out[ =]\S+/, '')}`.replace(/ -- ?$/, ''),
    floorMicroseconds: figures.find(({ id }) => id === 'floor/verify')?.median ?? Number.NaN,
    ...{ figures, wrongVerdicts, interference, thrownAway, skipped, notes },
  };
}

/**
 * Opens the folder of the results, or goes on with one.
 *
 * @returns what affects the figures: the commit, which has the versions of all packages, and the machine
 * @throws Error if it has runs of another commit, machine or options
 */
function openFolder(directory: string, asked: Pick<Options, 'plan' | 'url'>, commit: Commit) {
  const machine = {
    ...{ processor: cpus()[0]?.model.trim() ?? 'unknown', cores: availableParallelism() },
    node: process.versions.node,
  };
  const about = { ...commit, machine };
  const file = path.join(directory, 'begun.json');
  if (!existsSync(file)) {
    mkdirSync(directory, { recursive: true });
    writeFileSync(file, JSON.stringify({ ...about, asked }));
    return about;
  }
  const begun = JSON.parse(readFileSync(file, 'utf8')) as typeof about;
  if (about.isDirty || !isDeepStrictEqual(begun, { ...about, asked, startedAt: begun.startedAt }))
    throw new Error(
      `${directory} has runs of another commit, Node, machine or options, or there are changes: use another --out`,
    );
  return { ...about, startedAt: begun.startedAt };
}
