/** The middle of some numbers. @throws RangeError where there are none */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError('the median of no samples');
  return (lower + upper) / 2;
}

/** (highest − lowest) / median: 0.1 says that the runs lie within a tenth of the median. */
export function spread(samples: readonly number[]): number {
  const middle = median(samples);
  return middle === 0 ? 0 : (Math.max(...samples) - Math.min(...samples)) / middle;
}

/** By how much one set of samples is shifted against another. */
export interface Shift {
  /** Hodges-Lehmann estimate: the median of all pairwise differences. */
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  /** Of the interval; less than was asked for where there are too few samples. */
  readonly confidence: number;
}

/**
 * The shift from `a` to `b`, with an exact permutation interval: the shifts that a two-sided Mann-Whitney test does
 * not refuse. It assumes no distribution, only that under "no difference" the labels could be swapped.
 *
 * @see Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, §4.3
 */
export function shiftBetween(a: readonly number[], b: readonly number[], confidence: number): Shift {
  const differences = b.flatMap((y) => a.map((x) => y - x)).sort((x, y) => x - y);
  const tail = (1 - confidence) / 2;
  const arrangements = countArrangements(a.length, b.length);
  const total = arrangements.reduce((sum, count) => sum + count, 0);
  // How many of the outermost differences can be left out at either end.
  let outside = 0;
  let below = 0;
  while ((below + (arrangements[outside] ?? total)) / total <= tail) {
    below += arrangements[outside] ?? total;
    outside++;
  }
  const cut = Math.max(0, outside - 1);
  const excluded = arrangements.slice(0, cut + 1).reduce((sum, count) => sum + count, 0);
  const low = differences[cut];
  const high = differences[differences.length - 1 - cut];
  if (low === undefined || high === undefined) throw new RangeError('a shift between no samples');
  return { estimate: median(differences), low, high, confidence: 1 - (2 * excluded) / total };
}

/** For each value of Mann-Whitney's U, in how many orders of n and m samples it comes about. */
function countArrangements(n: number, m: number): number[] {
  // counts[j][u] for i samples of the first kind, built up one sample at a time.
  let counts: number[][] = Array.from({ length: m + 1 }, () => [1]);
  for (let i = 1; i <= n; i++) {
    const next: number[][] = [[1]];
    for (let j = 1; j <= m; j++) {
      const row = Array.from({ length: i * j + 1 }, (_, u) => {
        const lastIsFirstKind = u >= j ? (counts[j]?.[u - j] ?? 0) : 0;
        return lastIsFirstKind + (next[j - 1]?.[u] ?? 0);
      });
      next.push(row);
    }
    counts = next;
  }
  return counts[m] ?? [1];
}
