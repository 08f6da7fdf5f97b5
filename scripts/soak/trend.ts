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
// Student's t for 95 % and PARTS - 2 degrees of freedom.
const T = 2.228;

/**
 * Checks whether a value grows.
 *
 * @param points hours since the start, and the value
 * @param tolerance growth per hour that does not count
 * @returns `no growth` if the whole interval is below the tolerance, `grows` if all of it is above, else `cannot tell`
 * @throws RangeError if there are fewer points than parts
 */
export function trendOf(points: readonly (readonly [number, number])[], tolerance: number): Trend {
  if (points.length < PARTS) throw new RangeError(`${points.length} samples, expected at least ${PARTS}`);
  const parts = Array.from({ length: PARTS }, (_, at) =>
    points.slice(Math.floor((at * points.length) / PARTS), Math.floor(((at + 1) * points.length) / PARTS)),
  );
  const xs = parts.map((part) => mean(part.map(([hours]) => hours)));
  const ys = parts.map((part) => medianOf(part.map(([, value]) => value)));
  const [meanX, meanY] = [mean(xs), mean(ys)];
  const spread = xs.reduce((sum, x) => sum + (x - meanX) ** 2, 0);
  const slope = xs.reduce((sum, x, at) => sum + (x - meanX) * ((ys[at] as number) - meanY), 0) / spread;
  const rest = xs.reduce((sum, x, at) => sum + ((ys[at] as number) - meanY - slope * (x - meanX)) ** 2, 0);
  const error = T * Math.sqrt(rest / (PARTS - 2) / spread);
  const [low, high] = [slope - error, slope + error];
  const verdict = high <= tolerance ? 'no growth' : low > tolerance ? 'grows' : 'cannot tell';
  return { perHour: slope, low, high, verdict };
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
