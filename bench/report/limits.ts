import type { Figure } from '../run/results.js';

// Wide limits, for busy machines: they detect a broken version, not a slower one.
const LIMITS: readonly (readonly [id: string, floors: number])[] = [
  ...[1, 4].map((depth) => [`/warm/d${depth}/c32/cpu`, 5] as const),
  ...[1, 4].map((depth) => [`/cold/d${depth}/c32/cpu`, 2 * (depth + 1) + 4] as const),
];
const IN_PROCESS: readonly (readonly [id: string, floors: number])[] = [
  ['in-process/in-thread/warm/d1/cpu', 4],
  ['in-process/in-thread/warm/d4/cpu', 4],
  ['in-process/in-thread/cold/d4/cpu', 16],
];

/** A figure above its limit. */
export interface Excess {
  readonly suite: string;
  /** For a person. */
  readonly message: string;
}

/**
 * The limits that a smoke run exceeds. They are ratios to the floor of the same run, since absolute times depend on the
 * machine. A busy moment can make a figure ten times too high, so only the lowest of its samples counts: a broken version
 * exceeds its limit each time.
 */
export function limitsExceeded(figureOf: (id: string) => Figure | undefined): Excess[] {
  const found: Excess[] = [];
  const check = (ids: readonly string[], limit: number) => {
    const figure = ids.map(figureOf).find((one) => one !== undefined);
    const samples = figure?.samplesInFloors ?? [];
    const lowest = Math.min(...samples);
    const suite = ids[0]?.split('/', 1)[0] ?? '';
    if (samples.length === 0) found.push({ suite, message: `${ids.join(' or ')} was not measured` });
    else if (lowest > limit) {
      const message =
        `${figure?.id} is ${lowest.toFixed(2)} floors at least, in ${samples.length} measurements, ` +
        `at most ${limit} expected; profile it: npm run bench:profile`;
      found.push({ suite, message });
    }
  };
  for (const [id, limit] of LIMITS) check([`closed-loop/wrk${id}`, `closed-loop/autocannon${id}`], limit);
  for (const [id, limit] of IN_PROCESS) check([id], limit);
  return found;
}
