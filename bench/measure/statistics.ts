import { median } from 'simple-statistics';
import {
  build,
  decodeFromCompressedBase64,
  encodeIntoCompressedBase64,
  type Histogram,
} from 'hdr-histogram-js';

/** The median of some runs, with its interval. */
export interface Interval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  /** The confidence of the interval. Below six runs, the interval is the whole range, with less than 0.95. */
  readonly confidence: number;
}

/**
 * The interval of a median by order statistics: exact for any distribution of the runs.
 *
 * @param samples one for each run
 * @throws Error if there are none
 * @see Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, §3.6
 */
export function intervalOf(samples: readonly number[], confidence = 0.95): Interval {
  const sorted = [...samples].sort((x, y) => x - y);
  const n = sorted.length;
  // Each run is above the true median with probability 1/2. `tail` is the probability that at most `cut` runs are
  // below.
  let cut = 0;
  let ways = 1;
  let tail = 0.5 ** n;
  for (;;) {
    ways = (ways * (n - cut)) / (cut + 1);
    const next = tail + ways * 0.5 ** n;
    if (next > (1 - confidence) / 2 || 2 * (cut + 1) >= n) break;
    tail = next;
    cut++;
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

/** Latencies as text, to pass from one process to another. */
export const encodeLatencies = (latencies: Histogram): string => encodeIntoCompressedBase64(latencies);

/** Reads what {@link encodeLatencies} wrote. */
export const decodeLatencies = (text: string): Histogram => decodeFromCompressedBase64(text, 32);
