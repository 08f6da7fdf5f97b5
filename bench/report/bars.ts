import type { Estimate } from '../measure/statistics.js';
import { finderOf, type Finder, type Results } from '../run/results.js';
import { CROWDS, FACTORS, POOLS } from '../suites/overload.js';

export interface Bar {
  readonly what: string;
  readonly id: string;
  /** µs of processor time and latencies are in floors of the same run; all else in the unit of the figure. */
  readonly unit: 'floors' | 'ms' | '%' | '/s';
  readonly limit: number;
}

export const MAX_P99_AT_HALF_LOAD = 20;
// The floor of the machine on which the throughput bars were set. They are scaled to the floor of this machine.
const REFERENCE_FLOOR = 52;

const bar = (what: string, id: string, unit: Bar['unit'], limit: number): Bar => ({ what, id, unit, limit });

/** The bars that the suite measures: at most so much, but for rates and goodput, which must be at least so much. */
const BARS: readonly Bar[] = [
  ...Object.entries({ 1: 14_000, 4: 13_000, 16: 10_500 }).flatMap(([depth, rate]) => {
    const isLong = depth === '16';
    const [id, half] = [`throughput/warm/d${depth}`, `latency/warm/d${depth}/at50/p99`];
    const scaled = `warm throughput, depth ${depth}, scaled to a floor of ${REFERENCE_FLOOR} µs`;
    const over = `the product over one verification, depth ${depth}`;
    return [
      bar(`warm CPU, depth ${depth}, 128 connections`, `${id}/c128/cpu`, 'floors', isLong ? 2 : 1.6),
      bar(`p50 at 1 connection, warm, depth ${depth}`, `${id}/c1/p50`, 'floors', 2.2),
      bar(`p99 at 1 connection, warm, depth ${depth}`, `${id}/c1/p99`, 'floors', 4),
      bar(`p99 at half load, warm, depth ${depth}`, half, 'floors', MAX_P99_AT_HALF_LOAD),
      bar(scaled, `${id}/c32/throughput`, '/s', rate),
      bar(over, `ladder/over-verification/d${depth}/cpu`, 'floors', isLong ? 0.45 : 0.25),
    ];
  }),
  ...[1, 2, 3, 4, 8, 16].flatMap((depth) => [
    bar(`cold CPU, depth ${depth}`, `throughput/cold/d${depth}/c32/cpu`, 'floors', 1.12 * (depth + 1) + 0.9),
    bar(`added by /gate/mcp over /verify, depth ${depth}`, `gate/added/d${depth}/cpu`, 'floors', 0.25),
  ]),
  bar('library, no threads, warm, depth 4', 'throughput/library/warm/d4/cpu', 'floors', 1.25),
  ...['default', '0'].flatMap((workers) =>
    POOLS.flatMap((pool) =>
      FACTORS.slice(1).flatMap((factor) => {
        const id = `overload/w-${workers}/pool-${pool}/x${factor}`;
        const of = `${factor} times the capacity, ${workers} workers, ${pool} connections:`;
        return [
          bar(`${of} goodput, of the capacity`, `${id}/goodput-of-capacity`, '%', 85),
          bar(`${of} p99 of /healthz`, `${id}/healthz-p99`, 'ms', 100),
        ];
      }),
    ),
  ),
  ...CROWDS.filter(({ patienceMs = null }) => patienceMs === null).map(({ name }) =>
    bar(`${name}: refused`, `overload/${name}/refused`, '%', 0),
  ),
];

export interface CheckedBar extends Estimate {
  readonly bar: Bar;
  readonly verdict: 'met' | 'not met' | 'cannot tell';
}

export function checkBars(results: Results): CheckedBar[] {
  const find = finderOf(results);
  return BARS.flatMap((bar) => {
    const figure = find(bar.id);
    if (figure === undefined) return [];
    const scale = { floors: 1, ms: 1e-3, '%': 100, '/s': results.floorMicroseconds / REFERENCE_FLOOR }[
      bar.unit
    ];
    const from = bar.unit === 'floors' && figure.floors !== null ? figure.floors : figure;
    const [median, low, high] = [from.median * scale, from.low * scale, from.high * scale];
    const isFloor = figure.unit === '1/s' || bar.id.endsWith('/goodput-of-capacity');
    // A verdict must hold for the whole interval. A single run has no interval, so no verdict.
    const [best, worst] = isFloor ? [high, low] : [low, high];
    const holds = (value: number) => (isFloor ? value >= bar.limit : value <= bar.limit);
    const verdict =
      figure.runs > 1 && holds(worst) ? 'met' : figure.runs > 1 && !holds(best) ? 'not met' : 'cannot tell';
    return [{ bar, median, low, high, verdict }];
  });
}

// Wide limits, for busy machines: they detect a broken version, not a slower one.
const LIMITS: readonly (readonly [id: string, floors: number])[] = [
  ...[1, 4].map((depth) => [`throughput/warm/d${depth}/c32/cpu`, 5] as const),
  ...[1, 4].map((depth) => [`throughput/cold/d${depth}/c32/cpu`, 2 * (depth + 1) + 4] as const),
  ['throughput/library/warm/d1/cpu', 4],
  ['throughput/library/warm/d4/cpu', 4],
  ['throughput/library/cold/d4/cpu', 16],
];

/**
 * The limits that a smoke run exceeds. They are ratios to the floor of the same run, since absolute times depend on the
 * machine. A busy moment can make a figure ten times too high, so only the lowest of its samples counts: a broken version
 * exceeds its limit each time.
 */
export function limitsExceeded(find: Finder): { readonly suite: string; readonly message: string }[] {
  return LIMITS.flatMap(([id, limit]) => {
    const suite = id.split('/', 1)[0] ?? '';
    const { floors, runs } = find(id) ?? {};
    if (floors === undefined || floors === null) return [{ suite, message: `${id} was not measured` }];
    if (floors.low <= limit) return [];
    const message =
      `${id} is ${floors.low.toFixed(2)} floors at least, in ${runs} measurements, ` +
      `at most ${limit} expected; profile it: npm run bench:profile`;
    return [{ suite, message }];
  });
}
