import { median } from 'simple-statistics';

/** The median of some runs, and between what it lies. */
export interface Interval {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  /** Of the interval. Below six runs it is less than 0.95: it is then the whole range. */
  readonly confidence: number;
}

/**
 * The interval of a median by its order statistics: exact for whatever distribution the runs have.
 *
 * @param samples one for each run
 * @param confidence that is asked for
 * @throws Error if there are none
 * @see Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, §3.6
 */
export function intervalOf(samples: readonly number[], confidence = 0.95): Interval {
  const sorted = [...samples].sort((x, y) => x - y);
  const n = sorted.length;
  // Each run lies above the true median with a chance of one half. `tail` is that of at most `cut` runs below it.
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
  return {
    estimate: median(sorted),
    low: sorted[cut] ?? Number.NaN,
    high: sorted[n - 1 - cut] ?? Number.NaN,
    confidence: Math.max(0, 1 - 2 * tail),
  };
}
