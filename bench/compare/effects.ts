import { mean, median } from 'simple-statistics';

/**
 * Four slices in the order A B B A or B A A B, so that a steady change of the machine affects both sides equally.
 * Values are per request, so smaller is better.
 */
export interface Quad {
  readonly a: readonly number[];
  readonly b: readonly number[];
}

/** An effect as a logarithm of B / A, with its interval. */
export interface Effect {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  /** The confidence of the interval; less than required if there are too few samples. */
  readonly confidence: number;
}

export type Verdict = 'regression' | 'no regression' | 'cannot tell';

/** By how much B is above A in a quad, as a logarithm. */
export const logRatioOf = ({ a, b }: Quad): number => mean(b.map(Math.log)) - mean(a.map(Math.log));

/**
 * The median of the means of all pairs (Hodges and Lehmann): nearly as exact as the mean, but outliers do not change
 * it.
 */
export const hodgesLehmann = (samples: readonly number[]): number => median(walshAverages(samples));

/**
 * The effect over all restarts. The unit is the restart, not the slice: the compiler optimizes the same code
 * differently in each process, so slices of one pair of processes are not independent.
 *
 * The estimate is that of Hodges and Lehmann. The interval is the exact one of Wilcoxon's signed ranks, which only
 * assumes that the distribution is symmetric.
 *
 * @param restarts the effect within each restart
 * @see Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, §3.3
 */
export function effectOf(restarts: readonly number[], confidence: number): Effect {
  const averages = walshAverages(restarts).sort((x, y) => x - y);
  const counts = signedRankCounts(restarts.length);
  const total = 2 ** restarts.length;
  const tail = (1 - confidence) / 2;
  // How many of the outermost averages may be left out at either end.
  let [outside, below] = [0, 0];
  while ((below + (counts[outside] ?? total)) / total <= tail) below += counts[outside++] ?? total;
  const cut = Math.max(0, outside - 1);
  const excluded = counts.slice(0, cut + 1).reduce((sum, count) => sum + count, 0);
  const low = averages[cut];
  const high = averages[averages.length - 1 - cut];
  if (low === undefined || high === undefined) throw new RangeError('an effect of no restarts');
  return { estimate: median(averages), low, high, confidence: 1 - (2 * excluded) / total };
}

/**
 * Whether B is worse than A, by `limit` or more.
 *
 * @param limit the smallest effect that counts, as a logarithm
 * @returns `regression` if the whole interval lies above 0 and it reaches the limit; `no regression` if the whole
 *   interval lies below the limit (B may still be slower, by less); else `cannot tell`
 */
export function verdictOf({ low, high }: Effect, limit: number): Verdict {
  if (high < limit) return 'no regression';
  return low > 0 ? 'regression' : 'cannot tell';
}

function walshAverages(samples: readonly number[]): number[] {
  return samples.flatMap((x, at) => samples.slice(at).map((y) => (x + y) / 2));
}

/** For each sum of positive ranks of n samples: how many of the 2^n combinations of signs have it. */
function signedRankCounts(n: number): number[] {
  let counts = [1];
  for (let rank = 1; rank <= n; rank++) {
    const next = new Array<number>(counts.length + rank).fill(0);
    for (const [sum, count] of counts.entries()) {
      next[sum] = (next[sum] ?? 0) + count;
      next[sum + rank] = (next[sum + rank] ?? 0) + count;
    }
    counts = next;
  }
  return counts;
}
