import { shiftBetween } from './measure/statistics.js';
import type { Figure, Results } from './results.js';

/** What became of a figure from one result to another. */
export type Verdict = 'better' | 'worse' | 'no difference' | 'too few runs';

/** One figure in two results. Ratios are b / a, of values in floors where the figure has them. */
export interface Comparison {
  readonly id: string;
  readonly unit: string;
  readonly medians: readonly [a: number, b: number];
  readonly spreads: readonly [a: number, b: number];
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
  /** Of the interval from `low` to `high`. */
  readonly confidence: number;
  /** What the interval must lie beyond: 1.05 is 5 %. */
  readonly threshold: number;
  readonly verdict: Verdict;
  /** Whether a regression here is a reason to stop: throughput, processor time and p99 under closed loops. */
  readonly isGate: boolean;
}

const CONFIDENCE = 0.99;
// With four runs on either side the exact interval that takes in all differences has 97 %; below that a verdict would
// be a guess.
const LEAST_CONFIDENCE = 0.95;
// A comparison judges hundreds of figures at once, so one interval in a hundred that is wrong would be too many. The
// interval must clear the threshold by half of what the runs of one side differ among themselves; by simulation that
// leaves less than one false verdict in a thousand figures, however noisy (test/bench/comparison.test.ts). Of two results
// that were measured one after the other it must clear all of that difference: the machine itself changes from one
// quarter of an hour to the next, by as much as from round to round, and no figure of one result shows it.
const GUARDS = { 'in turn': 0.5, apart: 1 } as const;
const THROUGHPUT_THRESHOLD = 1.05;
const TAIL_THRESHOLD = 1.1;

const isTail = ({ id }: Figure) => /\/(p90|p99|p99\.9)$/.test(id);
const isGate = ({ id }: Figure) => /^(closed-loop|in-process)\/.*\/(throughput|cpu|p99)$/.test(id);

/** Whether two results were measured in turn, round by round, or one after the other. */
export type Order = keyof typeof GUARDS;

/** Compares every figure that both results have and that can be better or worse. */
export function compareResults(a: Results, b: Results, order: Order): Comparison[] {
  return a.figures.flatMap((figure) => {
    const other = b.figures.find(({ id }) => id === figure.id);
    if (other === undefined || figure.better === 'neither') return [];
    return [compareFigures(figure, other, order)];
  });
}

/**
 * Compares a figure. A verdict is given only where the whole confidence interval of the ratio lies clearly beyond the
 * threshold: 5 %, for tails of latencies 10 %.
 */
export function compareFigures(a: Figure, b: Figure, order: Order): Comparison {
  const threshold = isTail(a) ? TAIL_THRESHOLD : THROUGHPUT_THRESHOLD;
  // In floors, so that a machine that is faster today does not count as a better commit.
  const [samplesA, samplesB] =
    a.samplesInFloors !== null && b.samplesInFloors !== null
      ? [a.samplesInFloors, b.samplesInFloors]
      : [a.samples, b.samples];
  const shift = shiftBetween(samplesA.map(logarithm), samplesB.map(logarithm), CONFIDENCE);
  const guard = GUARDS[order] * Math.max(logRange(samplesA), logRange(samplesB));
  const [ratio, low, high] = [shift.estimate, shift.low, shift.high].map(Math.exp) as [
    number,
    number,
    number,
  ];
  return {
    ...{ id: a.id, unit: a.unit, ratio, low, high, threshold, confidence: shift.confidence },
    medians: [a.median, b.median],
    spreads: [a.spread, b.spread],
    verdict: judge(
      { low, high, confidence: shift.confidence, threshold: threshold * Math.exp(guard) },
      a.better,
    ),
    isGate: isGate(a),
  };
}

function judge(
  { low, high, confidence, threshold }: Pick<Comparison, 'low' | 'high' | 'confidence' | 'threshold'>,
  better: Figure['better'],
): Verdict {
  if (confidence < LEAST_CONFIDENCE) return 'too few runs';
  if (low > threshold) return better === 'higher' ? 'better' : 'worse';
  if (high < 1 / threshold) return better === 'higher' ? 'worse' : 'better';
  return 'no difference';
}

// Ratios are what counts; nothing that is measured is exactly 0 but bytes, and there 1 byte makes no difference.
const logarithm = (value: number) => Math.log(Math.max(value, 1e-9));

const logRange = (samples: readonly number[]) =>
  logarithm(Math.max(...samples)) - logarithm(Math.min(...samples));

/** The comparison as text, what differs first. */
export function renderComparison(
  comparisons: readonly Comparison[],
  names: readonly [string, string],
): string {
  const percent = (ratio: number) => `${ratio >= 1 ? '+' : '−'}${Math.abs(100 * (ratio - 1)).toFixed(1)} %`;
  const order: readonly Verdict[] = ['worse', 'better', 'no difference', 'too few runs'];
  const sorted = [...comparisons].sort((x, y) => order.indexOf(x.verdict) - order.indexOf(y.verdict));
  const rows = sorted.map(({ id, medians, spreads, ratio, low, high, confidence, verdict, isGate }) => [
    `${id}${isGate ? ' *' : ''}`,
    ...medians.map((value) => value.toPrecision(4)),
    spreads.map((spread) => (100 * spread).toFixed(0)).join('/'),
    percent(ratio),
    `${percent(low)} … ${percent(high)}`,
    (100 * confidence).toFixed(1),
    verdict,
  ]);
  const head = [
    'figure',
    `A: ${names[0]}`,
    `B: ${names[1]}`,
    'spread %',
    'B to A',
    'interval',
    'conf. %',
    'verdict',
  ];
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const lines = [head, ...rows].map((row) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join('  '),
  );
  const count = (verdict: Verdict) => comparisons.filter((one) => one.verdict === verdict).length;
  return [
    ...lines,
    '',
    `${count('worse')} worse, ${count('better')} better, ${count('no difference')} no difference, ` +
      `${count('too few runs')} with too few runs for a verdict (four or more a side)`,
    'Ratios are of values in floors where there are some; intervals are exact rank intervals (Mann-Whitney).',
    '* a regression here makes the exit code 1',
    '',
  ].join('\n');
}
