import path from 'node:path';
import { parseArgs } from 'node:util';
import { scratchFolder } from '../run/programs.js';
import { Workloads } from '../workload/workload.js';
import { exitCodeOf, findingsOf, MIN_RESTARTS, type Outcome } from './outcome.js';
import { measurePair, type Case, type PairPlan, type Quantity, type Restart } from './pair.js';
import { buildTree, removeTree } from './trees.js';

export interface CompareOptions {
  readonly versions: readonly [a: string, b: string];
  readonly cases: readonly Case[];
  /** The smallest effect that counts, as a share: 0.05. */
  readonly detect: number;
  readonly minutes: number;
  readonly gates: readonly Quantity[];
}

export const USAGE = `npm run bench:compare -- --commits <a> <b> [options]

  <a>, <b>          commits, or folders with a working copy (its changes are taken along)
  --depth <1,4>     receipts in the chain (default 4)
  --warm, --cold    traffic (default warm)
  --detect <5>      the smallest regression that counts, in percent (default 5)
  --minutes <5>     ends it after so long, building included, with what was measured until then: mostly "cannot tell"
  --gate <cpu>      what decides: cpu, latency or both (default cpu,latency); with cpu alone, latency is not measured

npm run bench:compare -- --parent   for CI: this working copy with the commit before it, within some 45 s; 10 % counts.
                                    Exit code 1 for a regression; else 0, also where it cannot tell.

Exit code: 0 no regression of that size, 1 a regression, 2 it cannot tell (or could not run).
`;

const GATES: Readonly<Record<string, Quantity>> = { cpu: 'cpu', latency: 'latency p50' };

/** @returns `null` if help is asked for. @throws Error that names what is wrong */
export function readCompareOptions(args: readonly string[]): CompareOptions | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      commits: { type: 'boolean', default: false },
      depth: { type: 'string', default: '4' },
      warm: { type: 'boolean', default: false },
      cold: { type: 'boolean', default: false },
      detect: { type: 'string', default: '5' },
      minutes: { type: 'string', default: '5' },
      gate: { type: 'string', default: 'cpu,latency' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const [a, b, ...more] = positionals;
  if (!values.commits || a === undefined || b === undefined || more.length > 0)
    throw new Error(
      `expected --commits and two versions, found ${positionals.join(' ') || 'none'}\n${USAGE}`,
    );
  const depths = values.depth.split(',').map((text) => number('depth', text, 1, 16));
  const traffics = (['warm', 'cold'] as const).filter((traffic) => values[traffic]);
  return {
    versions: [a, b],
    cases: (traffics.length === 0 ? (['warm'] as const) : traffics).flatMap((traffic) =>
      depths.map((depth) => ({ traffic, depth })),
    ),
    detect: number('detect', values.detect, 0.1, 100) / 100,
    minutes: number('minutes', values.minutes, 0.1, 600),
    gates: values.gate.split(',').map((name) => {
      const gate = GATES[name];
      if (gate === undefined)
        throw new Error(`--gate has ${JSON.stringify(name)}, expected cpu, latency or both`);
      return gate;
    }),
  };
}

function number(option: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= min && value <= max) return value;
  throw new Error(`--${option} has ${JSON.stringify(text)}, expected a number from ${min} to ${max}`);
}

/** The required precision of effects within a pair, as a fraction of the effect to detect. */
const PRECISION = 1 / 4;

/**
 * Builds both versions and measures pair after pair of processes, until the result is clear or the time is over. If both
 * are the same, builds it once.
 */
export async function compareVersions(
  { versions, ...options }: CompareOptions,
  say: (what: string) => void,
): Promise<Outcome> {
  const time = AbortSignal.timeout(60_000 * options.minutes);
  const endsAt = performance.now() + 60_000 * options.minutes;
  const build = (version: string, folder: string) => {
    const timeoutMs = Math.max(1, Math.ceil(endsAt - performance.now()));
    return buildTree(version, folder, { timeoutMs });
  };
  using scratch = scratchFolder();
  const [folderA, folderB] = [path.join(scratch.folder, 'a'), path.join(scratch.folder, 'b')];
  try {
    say(`building ${versions.join(' and ')}`);
    const a = build(versions[0], folderA);
    const trees = [a, versions[0] === versions[1] ? a : build(versions[1], folderB)] as const;
    const workloads = new Workloads(scratch.folder);
    const measure: Measure = (one, plan) => measurePair(trees, one, workloads, { ...plan, time });
    return await comparePairs([trees[0].name, trees[1].name], measure, options, time, say);
  } catch (error) {
    if (performance.now() < endsAt) throw error;
    throw new Error(`--minutes ${options.minutes} was over before both versions were built`, {
      cause: error,
    });
  } finally {
    for (const folder of [folderA, folderB]) removeTree(folder);
  }
}

/** Measures a pair of processes. Rejects soon where the time is over. */
type Measure = (one: Case, plan: PairPlan) => Promise<Restart>;

/** @param time aborted when it is over: then a pair that is being measured does not count */
export async function comparePairs(
  versions: Outcome['versions'],
  measure: Measure,
  { cases, detect, gates }: Pick<CompareOptions, 'cases' | 'detect' | 'gates'>,
  time: AbortSignal,
  say: (what: string) => void,
): Promise<Outcome> {
  const started = performance.now();
  const measured = new Map(cases.map((one) => [one, [] as Restart[]]));
  const others: number[] = [];
  const plan = { precision: PRECISION * detect, isOnlyCpu: gates.every((gate) => gate === 'cpu') };
  const outcome = (): Outcome => {
    const found = [...measured].filter(([, { length }]) => length > 0);
    return {
      ...{ versions, detect, seconds: (performance.now() - started) / 1000, others },
      findings: found.flatMap(([one, restarts]) => findingsOf(one, restarts, detect, gates)),
      left: cases.filter((one) => measured.get(one)?.length === 0),
    };
  };
  for (let restart = 1; ; restart++) {
    for (const [one, restarts] of measured) {
      try {
        const result = await measure(one, { ...plan, isSwapped: restart % 2 === 0 });
        restarts.push(result);
        others.push(result.others);
        const effect = 100 * Math.expm1(result.measured.cpu.effect);
        say(`restart ${restart}, ${one.traffic} depth ${one.depth}: CPU ${effect.toFixed(1)} %`);
      } catch (error) {
        if (time.aborted) return outcome();
        throw error;
      }
    }
    if (restart >= MIN_RESTARTS && exitCodeOf(outcome().findings) !== 2) return outcome();
  }
}
