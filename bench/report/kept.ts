import type { Estimate } from '../measure/statistics.js';
import { FACTORS, POOLS } from '../suites/overload.js';
import { finderOf, noisyIn, type Figure, type Figures, type Results } from '../run/results.js';

/** A run as bench/results.json keeps it: of its figures those that are shown, rounded and without their samples. */
export interface KeptRun extends Figures {
  readonly commit: string;
  readonly startedAt: string;
  readonly command: string;
  readonly machine: string;
  readonly floorMicroseconds: number;
  /** In how many of its measurements others had more than a tenth of the cores. */
  readonly noisy: string;
}

const SHOWN = [
  /^latency\/(warm|cold)\/d\d+\/at50\/(p50|p99)$/,
  /^latency\/machine\/p99$/,
  /^throughput\/(warm|cold)\/d\d+\/c(32|128)\/cpu$/,
  /^(throughput\/library\/.*|gate\/added\/d\d+)\/cpu$/,
  /^batch\/(warm|cold)\/tcp\/d\d+\/b\d+\/cpu$/,
  /^overload\/(w-|node|gate\/|grpc\/).*(?<=\/)(capacity|goodput|generator|refused|timed-out|healthz-p99)$/,
  /^overload\/(loop|burst|gate|grpc)-.*\/refused$/,
  /^engines\/.*\/(cpu|accepted-wrongly)$/,
  /^peers\/(.*\/cpu|fastify\/.*\/ratio)$/,
];

const round = (value: number) => Number(value.toPrecision(4));
const rounded = ({ median, low, high }: Estimate) => ({
  ...{ median: round(median), low: round(low), high: round(high) },
});

export function keep(results: Results): KeptRun {
  const { commit, startedAt, command, machine, floorMicroseconds, interference, figures } = results;
  return {
    ...{ commit, startedAt, command },
    machine: `${machine['processor']}, ${machine['cores']} cores, Node ${machine['node']}`,
    floorMicroseconds: round(floorMicroseconds),
    noisy: `${noisyIn(results).length} of ${interference.length}`,
    figures: figures
      .filter(({ id }) => SHOWN.some((pattern) => pattern.test(id)))
      .map((figure): Figure => {
        const { id, unit, runs, floors } = figure;
        return { id, unit, runs, ...rounded(figure), floors: floors && rounded(floors) };
      }),
  };
}

/** Adds a run. Figures that it has replace those of earlier runs; a run of which nothing is left goes. */
export function addRun(runs: readonly KeptRun[], added: KeptRun): KeptRun[] {
  const ids = new Set(added.figures.map(({ id }) => id));
  const left = runs.map((run) => ({ ...run, figures: run.figures.filter(({ id }) => !ids.has(id)) }));
  return [...left.filter(({ figures }) => figures.length > 0), added];
}

/** The text of bench/results.json, with a line for each figure. */
export function writeKept(runs: readonly KeptRun[]): string {
  const texts = runs.map(({ figures, ...about }) => {
    const head = JSON.stringify(about, null, 1).replace(/\n\}$/, ',');
    return `${head}\n "figures": [\n${figures.map((figure) => `  ${JSON.stringify(figure)}`).join(',\n')}\n ]\n}`;
  });
  return `[${texts.join(', ')}]\n`;
}

export const keptFigures = (runs: readonly KeptRun[]): Figures => ({
  figures: runs.flatMap(({ figures }) => figures),
});

const PLACE = /(<!-- measured: (picture|ratio|overload) -->\n)[^]*?(<!-- end -->)/g;

/**
 * Fills the measured parts of a page: the picture with where it is from, the comparison with the best alternative, and the
 * table of overload. A part stays as it is if there are no figures for it.
 */
export function fillPage(text: string, runs: readonly KeptRun[]): string {
  const parts: Readonly<Record<string, string | null>> = {
    ...{ picture: picture(runs), ratio: ratio(runs), overload: overload(runs) },
  };
  return text.replace(PLACE, (whole, begin: string, name: string, end: string) => {
    const part = parts[name] ?? null;
    return part === null ? whole : `${begin}\n${part}\n\n${end}`;
  });
}

const runWith = (runs: readonly KeptRun[], prefix: string) =>
  runs.findLast(({ figures }) => figures.some(({ id }) => id.startsWith(prefix)));

function picture(runs: readonly KeptRun[]): string | null {
  const run = runWith(runs, 'latency/warm/');
  if (run === undefined) return null;
  const [, cores = '?'] = /(\d+) cores/.exec(run.machine) ?? [];
  return (
    '![Latency by chain depth, p50 and p99, warm and cold, beside what the machine alone adds](docs/latency-by-depth.svg)\n\n' +
    `Measured ${run.startedAt.slice(0, 10)} at commit ${run.commit.slice(0, 9)} on ${cores} shared virtual cores.`
  );
}

/** How much more processor time than this service the best alternative takes for a warm call, over the depths. */
function ratio(runs: readonly KeptRun[]): string | null {
  const find = finderOf(keptFigures(runs));
  const medians = [1, 4, 16].flatMap((depth) => find(`peers/fastify/d${depth}/ratio`)?.median ?? []);
  const from = runWith(runs, 'peers/fastify/');
  if (medians.length === 0 || from === undefined) return null;
  const [least, most] = [Math.min(...medians), Math.max(...medians)].map((value) => value.toFixed(1));
  return `A tuned Fastify service (libsodium, verified receipts remembered, fewer checks) needs ${least} to ${most} times the CPU.`;
}

/** What is answered in time above the capacity, in percent of it. */
function overload(runs: readonly KeptRun[]): string | null {
  const run = runWith(runs, 'overload/w-');
  if (run === undefined) return null;
  const find = finderOf(keptFigures(runs));
  const rows = ['default', '0'].flatMap((workers) => {
    const capacity = find(`overload/w-${workers}/capacity`)?.median ?? Number.NaN;
    const name = `${workers === '0' ? 'none' : 'default'} (${Math.round(capacity)}/s)`;
    return POOLS.map((pool) => {
      const cells = FACTORS.slice(1).map((factor) => {
        const id = `overload/w-${workers}/pool-${pool}/x${factor}`;
        const good = find(`${id}/goodput`)?.median ?? Number.NaN;
        return `${Math.round((100 * good) / capacity)} %`;
      });
      return `| ${name} | ${pool} | ${cells.join(' | ')} |`;
    });
  });
  const from = `Measured ${run.startedAt.slice(0, 10)} at commit ${run.commit.slice(0, 9)}: ${run.machine}.`;
  const head = FACTORS.slice(1).map((factor) => `${factor}×`);
  return `${from}\n\n| workers | connections | ${head.join(' | ')} |\n| --- | --: |${' --: |'.repeat(head.length)}\n${rows.join('\n')}`;
}
