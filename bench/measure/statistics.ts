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

const CONFIDENCE = 0.95;

/**
 * The interval of a median with 95 % confidence by order statistics: exact for any distribution of the runs. Below six runs, it is the whole
 * range, with a lower confidence.
 *
 * @param samples one for each run
 * @throws Error if there are none
 * @see Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, §3.6
 */
export function intervalOf(samples: readonly number[]): Estimate {
  const sorted = samples.toSorted((x, y) => x - y);
  const n = sorted.length;
  // Each run is above the true median with probability 1/2: how many are below it is binomially distributed.
  const chances = binomialDistribution(n, 0.5) ?? [];
  let cut = 0;
  let tail = chances[0] ?? 0;
  for (; 2 * (cut + 1) < n; cut++) {
    tail += chances[cut + 1] ?? 0;
    if (tail > (1 - CONFIDENCE) / 2) break;
  }
  const [low = Number.NaN, high = Number.NaN] = [sorted[cut], sorted[n - 1 - cut]];
  return { median: median(sorted), low, high };
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
