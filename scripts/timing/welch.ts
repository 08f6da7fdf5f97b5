/** Whether two classes of inputs can be told apart by their times. */
export interface Comparison {
  /** Welch's t: the value furthest from 0 of all cuts that were tried. */
  readonly t: number;
  readonly samples: number;
  /** Nanoseconds by which the median of the second class is slower. */
  readonly nanoseconds: number;
  readonly verdict: 'no difference seen' | 'cannot tell' | 'they differ';
}

// The limits of dudect (Reparaz, Balasch, Verbauwhede: "Dude, is my code constant time?").
const SUSPECT = 4.5;
const DIFFERENT = 10;
// Fewer of a class say nothing. A difference that is seen nevertheless is one.
const MIN_SAMPLES = 1000;
// Interrupted measurements have long times. So the longest times are left out, with each of these shares in turn.
const CUTS = [1, 0.99, 0.95, 0.9, 0.75, 0.5];

/** Compares the times of two classes, in nanoseconds. */
export function compare(left: readonly number[], right: readonly number[]): Comparison {
  const all = [...left, ...right].sort((a, b) => a - b);
  let t = 0;
  for (const cut of CUTS) {
    const limit = all[Math.ceil(cut * all.length) - 1] ?? Infinity;
    const at = welch(
      left.filter((value) => value <= limit),
      right.filter((value) => value <= limit),
    );
    if (Math.abs(at) > Math.abs(t)) t = at;
  }
  const isEnough = Math.min(left.length, right.length) >= MIN_SAMPLES;
  const verdict =
    Math.abs(t) > DIFFERENT
      ? 'they differ'
      : Math.abs(t) < SUSPECT && isEnough
        ? 'no difference seen'
        : 'cannot tell';
  return { t, samples: all.length, nanoseconds: middleOf(right) - middleOf(left), verdict };
}

/** Welch's t: how many standard errors the mean of the second is above that of the first. */
function welch(left: readonly number[], right: readonly number[]): number {
  const [a, b] = [momentsOf(left), momentsOf(right)];
  const error = Math.sqrt(a.variance / left.length + b.variance / right.length);
  return error === 0 ? (a.mean === b.mean ? 0 : Infinity) : (b.mean - a.mean) / error;
}

function momentsOf(values: readonly number[]): { mean: number; variance: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  return { mean, variance };
}

function middleOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}
