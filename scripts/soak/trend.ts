import { linearRegression, linearRegressionLine, mean, sumNthPowerDeviations } from 'simple-statistics';

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
  let xs = parts.map((part) => mean(part.map(([hours]) => hours)));
  let ys = parts.map((part) => medianOf(part.map(([, value]) => value)));
  let [degrees, t] = [PARTS - 2, T_OF_TIME];
  if (points.some(([, , beside]) => beside !== undefined)) {
    const besides = parts.map((part) => medianOf(part.map(([, , beside = 0]) => beside)));
    [xs, ys] = [residuals(besides, xs), residuals(besides, ys)];
    [degrees, t] = [PARTS - 3, T_OF_BOTH];
  }
  const slope = lineThrough(xs, ys).m;
  const rest = sumNthPowerDeviations(residuals(xs, ys), 2);
  const error = t * Math.sqrt(rest / degrees / sumNthPowerDeviations(xs, 2));
  const [low, high] = [slope - error, slope + error];
  const verdict = high <= tolerance ? 'no growth' : low > tolerance ? 'grows' : 'cannot tell';
  return { perHour: slope, low, high, verdict };
}

const lineThrough = (xs: readonly number[], ys: readonly number[]) =>
  linearRegression(xs.map((x, at) => [x, ys[at] as number]));

/** How far values are from a straight line over others. */
function residuals(xs: readonly number[], ys: readonly number[]): number[] {
  const line = linearRegressionLine(lineThrough(xs, ys));
  return ys.map((y, at) => y - line(xs[at] as number));
}

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
