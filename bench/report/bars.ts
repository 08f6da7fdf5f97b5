import { intervalOf } from '../measure/interval.js';
import { figureOf, type Figure, type Results } from '../run/results.js';

/** A limit on speed that the project promises, as a ratio to the floor of the same run. */
export interface Bar {
  readonly what: string;
  /** The id of the figure that is checked. */
  readonly id: string;
  readonly better: 'lower' | 'higher';
  /** In the unit of `measure`. */
  readonly bar: number;
  readonly aim: number;
  readonly measure: (median: number, floorMicroseconds: number) => number;
  readonly show: (value: number) => string;
  /** Whether one run is enough, for example for bytes after a million requests, which hardly vary. */
  readonly isOneRunEnough?: boolean;
  /** The minimum values of the figure's parameters for which the bar applies. */
  readonly atLeast?: Readonly<Record<string, number>>;
}

// The floor of the machine on which the throughput bars were set. They are scaled to the floor of this machine.
const REFERENCE_FLOOR = 52;

const inFloors = (microseconds: number, floor: number) => microseconds / floor;
const floors = (value: number) => `${value.toFixed(2)} floors`;
const scaledToReference = (rate: number, floor: number) => (rate * floor) / REFERENCE_FLOOR;
const perSecond = (value: number) => `${Math.round(value)} /s`;
const megabytes = (value: number) => `${Math.round(value / 1e6)} MB`;

const lower = (what: string, id: string, bar: number, aim: number): Bar => ({
  ...{ what, id, better: 'lower', bar, aim, measure: inFloors, show: floors },
});

const WARM_CPU = [
  [1, 1.6, 1.45],
  [2, 1.6, 1.45],
  [4, 1.6, 1.45],
  [16, 2, 1.75],
] as const;
const THROUGHPUT = [
  [1, 14_000, 17_000],
  [4, 13_000, 16_000],
  [16, 10_500, 13_000],
] as const;
const DEPTHS = [1, 2, 3, 4, 8, 16];

const OVERLOAD_BARS = [
  ['goodput', 'goodput-of-peak', 'higher', 0.9],
  ['p99 of what is accepted', 'x3/p99', 'lower', 150_000],
  ['p99 of /healthz', 'x3/healthz-p99', 'lower', 50_000],
  ['back to normal', 'x3/back-to-normal', 'lower', 1_000_000],
] as const;

/** A burst larger than what can be served in time is refused only what would have waited for so long. */
const LEAST_WAIT_MICROS = 100_000;
const CROWD_BARS = [
  ['burst-200-cold', 'refused', 'lower', 0],
  ['burst-1000-warm', 'refused', 'lower', 0],
  ['burst-1000-cold', 'fastest-refusal', 'higher', LEAST_WAIT_MICROS],
  ['loop-512-warm', 'refused', 'lower', 0.01],
  ['loop-1000-warm', 'refused', 'lower', 0.01],
  ['loop-256-cold', 'refused', 'lower', 0.01],
  ['giving-up-1000-warm', 'goodput-of-peak', 'higher', 0.7],
  ['gate-burst-1000-warm', 'refused', 'lower', 0],
  ['gate-loop-512-warm', 'refused', 'lower', 0.01],
  ['grpc-burst-1000-warm', 'refused', 'lower', 0],
  ['grpc-loop-512-warm', 'refused', 'lower', 0.01],
] as const;

const milliseconds = (micros: number) => `${Math.round(micros / 1000)} ms`;
const percent = (ratio: number) => `${Math.round(100 * ratio)} %`;

/** The bars that the suite measures. Each id is the id of a figure in results.json. */
export const BARS: readonly Bar[] = [
  ...WARM_CPU.map(([depth, bar, aim]) =>
    lower(`warm CPU, depth ${depth}, 128 connections`, `closed-loop/wrk/warm/d${depth}/c128/cpu`, bar, aim),
  ),
  ...THROUGHPUT.map(([depth, bar, aim]): Bar => ({
    what: `warm throughput, depth ${depth}, 32 connections, scaled to a floor of ${REFERENCE_FLOOR} µs`,
    id: `closed-loop/wrk/warm/d${depth}/c32/throughput`,
    ...{ better: 'higher', bar, aim, measure: scaledToReference, show: perSecond },
  })),
  ...DEPTHS.map((depth) =>
    lower(
      `cold CPU, depth ${depth}`,
      `closed-loop/wrk/cold/d${depth}/c32/cpu`,
      1.12 * (depth + 1) + 0.9,
      1.05 * (depth + 1) + 0.9,
    ),
  ),
  ...DEPTHS.flatMap((depth) => [
    lower(`p50 at 1 connection, warm, depth ${depth}`, `closed-loop/wrk/warm/d${depth}/c1/p50`, 2.2, 1.8),
    lower(
      `p99 of those sent at 1 connection, warm, depth ${depth}`,
      `closed-loop/wrk/warm/d${depth}/c1/p99-uncorrected`,
      4,
      3,
    ),
  ]),
  ...DEPTHS.map((depth) =>
    lower(`p99 at half load, open loop, depth ${depth}`, `open-loop/warm/d${depth}/at50/p99`, 20, 10),
  ),
  ...(['some', '0'] as const).flatMap((workers) =>
    OVERLOAD_BARS.map(([what, name, better, bar]): Bar => {
      const show = better === 'higher' ? percent : milliseconds;
      return {
        what: `three times the capacity, ${workers === '0' ? 'without' : 'with'} workers: ${what}`,
        id: `overload/w-${workers}/${name}`,
        ...{ better, bar, aim: bar, measure: (value) => value, show },
        atLeast: { seconds: 30, areCoresEnough: 1 },
      };
    }),
  ),
  ...CROWD_BARS.map(([crowd, name, better, bar]): Bar => {
    const show = name === 'refused' || name === 'goodput-of-peak' ? percent : milliseconds;
    const what = `${crowd}: ${name.replaceAll('-', ' ')}`;
    return {
      what,
      id: `overload/${crowd}/${name}`,
      ...{ better, bar, aim: bar },
      measure: (value) => value,
      show,
    };
  }),
  ...DEPTHS.map((depth) =>
    lower(
      `added processor time of /gate/mcp over /verify, depth ${depth}`,
      `gate/added/d${depth}/cpu`,
      0.25,
      0.15,
    ),
  ),
  lower('in process, in-thread, warm, depth 4', 'in-process/in-thread/warm/d4/time', 1.25, 1.15),
  {
    what: 'RSS after a million verdicts',
    id: 'memory/resident',
    ...{ better: 'lower', bar: 220e6, aim: 220e6, measure: (bytes) => bytes, show: megabytes },
    isOneRunEnough: true,
    atLeast: { verdicts: 1_000_000 },
  },
];

/** A bar and its result. */
export interface CheckedBar {
  readonly bar: Bar;
  readonly measured: number;
  /** The lower end of the interval of the median, in the unit of `measured`. */
  readonly low: number;
  readonly high: number;
  readonly verdict: 'aim met' | 'met' | 'not met' | 'cannot tell';
}

/** Checks all bars whose figures were measured. */
export function checkBars(results: Results): CheckedBar[] {
  return BARS.flatMap((bar) => {
    const figure = figureOf(results, bar.id);
    if (figure === undefined || !applies(bar, figure)) return [];
    const samples =
      bar.measure === inFloors && figure.samplesInFloors !== null
        ? figure.samplesInFloors
        : figure.samples.map((value) => bar.measure(value, results.floorMicroseconds));
    const { estimate, low, high } = intervalOf(samples);
    // A verdict must hold for the whole interval. A single run has no interval, so usually no verdict.
    const [best, worst] = bar.better === 'lower' ? [low, high] : [high, low];
    const reaches = (value: number, limit: number) =>
      bar.better === 'lower' ? value <= limit : value >= limit;
    const canTell = samples.length > 1 || bar.isOneRunEnough === true;
    const verdict = !canTell
      ? 'cannot tell'
      : reaches(worst, bar.aim)
        ? 'aim met'
        : reaches(worst, bar.bar)
          ? 'met'
          : reaches(best, bar.bar)
            ? 'cannot tell'
            : 'not met';
    return [{ bar, measured: estimate, low, high, verdict }];
  });
}

function applies({ atLeast = {} }: Bar, { parameters }: Figure): boolean {
  return Object.entries(atLeast).every(([name, least]) => Number(parameters[name]) >= least);
}
