import { binomialDistribution, median } from 'simple-statistics';
import {
  build,
  decodeFromCompressedBase64,
  encodeIntoCompressedBase64,
  type Histogram,
} from 'hdr-histogram-js';

/** The median of some runs, with its interval. */
export interface Estimate {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/**
 * The interval of a median by order statistics: exact for any distribution of the runs. Below six runs, it is the whole
 * range, with a confidence of less than 0.95.
 *
 * @param samples one for each run
 * @throws Error if there are none
 * @see Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, §3.6
 */
export function intervalOf(
  samples: readonly number[],
  confidence = 0.95,
): Estimate & { readonly confidence: number } {
  const sorted = samples.toSorted((x, y) => x - y);
  const n = sorted.length;
  // Each run is above the true median with probability 1/2: how many are below it is binomially distributed.
  const chances = binomialDistribution(n, 0.5) ?? [];
  let cut = 0;
  let tail = chances[0] ?? 0;
  for (; 2 * (cut + 1) < n; cut++) {
    const more = tail + (chances[cut + 1] ?? 0);
    if (more > (1 - confidence) / 2) break;
    tail = more;
  }
  const [low = Number.NaN, high = Number.NaN] = [sorted[cut], sorted[n - 1 - cut]];
  return { median: median(sorted), low, high, confidence: Math.max(0, 1 - 2 * tail) };
}

/** Makes a histogram of latencies in whole µs, with three significant digits. */
export function newLatencies(): Histogram {
  return build({
    bitBucketSize: 32,
    autoResize: true,
    lowestDiscernibleValue: 1,
    highestTrackableValue: 60_000_000,
    numberOfSignificantValueDigits: 3,
  });
}

export const encodeLatencies = (latencies: Histogram): string => encodeIntoCompressedBase64(latencies);

export const decodeLatencies = (text: string): Histogram => decodeFromCompressedBase64(text, 32);

export const recordLatency = (latencies: Histogram, micros: number): void =>
  latencies.recordValue(Math.max(1, Math.round(micros)));
