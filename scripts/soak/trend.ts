import { mean } from 'simple-statistics';

/** How a value changes over time. */
export interface Trend {
  /** Change per hour: the slope of a straight line through the medians of equal parts of the time. */
  readonly perHour: number;
  /** The interval of the change, with 95 % confidence: from `low` to `high`. */
  readonly low: number;
  readonly high: number;
  readonly verdict: 'no growth' | 'grows' | 'cannot tell';
}

/** The number of parts into which the time is divided, so that an odd moment affects only one part. */
export const PARTS = 12;
// Student's t for 95 %, and PARTS - 2 or PARTS - 3 degrees of freedom.
const T_OF_TIME = 2.228;
const T_OF_BOTH = 2.262;

/** Hours since the start, the value, and what else the value depends on, if anything. */
export type Point = readonly [hours: number, value: number, beside?: number];

/**
 * Checks whether a value grows: for points with a third number, beyond what follows from that number.
 *
 * @param tolerance growth per hour that does not count
 * @returns `no growth` if the whole interval is below the tolerance, `grows` if all of it is above, else `cannot tell`
 * @throws RangeError if there are fewer points than parts
 */
export function trendOf(points: readonly Point[], tolerance: number): Trend {
  if (points.length < PARTS) throw new RangeError(`${points.length} samples, expected at least ${PARTS}`);
  const parts = Array.from({ length: PARTS }, (_, at) =>
    points.slice(Math.floor((at * points.length) / PARTS), Math.floor(((at + 1) * points.length) / PARTS)),
  );
  const besides = parts.map((part) => medianOf(part.map(([, , beside = 0]) => beside)));
  const [degrees, t] = points.some(([, , beside]) => beside !== undefined)
    ? [PARTS - 3, T_OF_BOTH]
    : [PARTS - 2, T_OF_TIME];
  const xs = without(
    besides,
    parts.map((part) => mean(part.map(([hours]) => hours))),
  );
  const ys = without(
    besides,
    parts.map((part) => medianOf(part.map(([, value]) => value))),
  );
  const spread = product(xs, xs);
  const slope = product(xs, ys) / spread;
  const rest = ys.map((y, at) => y - slope * (xs[at] as number));
  const error = t * Math.sqrt(product(rest, rest) / degrees / spread);
  const [low, high] = [slope - error, slope + error];
  const verdict = high <= tolerance ? 'no growth' : low > tolerance ? 'grows' : 'cannot tell';
  return { perHour: slope, low, high, verdict };
}

/** What is left of values around their mean when the part that is proportional to others is taken away. */
function without(others: readonly number[], values: readonly number[]): number[] {
  const [meanOther, meanValue] = [mean([...others]), mean([...values])];
  const [xs, ys] = [others.map((other) => other - meanOther), values.map((value) => value - meanValue)];
  const spread = product(xs, xs);
  const factor = spread === 0 ? 0 : product(xs, ys) / spread;
  return ys.map((y, at) => y - factor * (xs[at] as number));
}

const product = (left: readonly number[], right: readonly number[]) =>
  left.reduce((sum, value, at) => sum + value * (right[at] as number), 0);

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** A percentile by rank, `NaN` without values. */
export function percentile(values: readonly number[], rank: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * rank))] ?? NaN;
}
