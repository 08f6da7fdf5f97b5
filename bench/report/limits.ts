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

/**
 * The limits that a smoke run exceeds, as text. They are ratios to the floor of the same run, since absolute times
 * depend on the machine.
 */
export function limitsExceeded(figureOf: (id: string) => Figure | undefined): string[] {
  const lines: string[] = [];
  const check = (ids: readonly string[], limit: number) => {
    const figure = ids.map(figureOf).find((found) => found !== undefined);
    const floors = figure?.floors ?? null;
    if (figure === undefined || floors === null) lines.push(`${ids.join(' or ')} was not measured`);
    else if (floors > limit) {
      lines.push(
        `${figure.id} is ${floors.toFixed(2)} floors, at most ${limit} expected; profile it: npm run bench:profile`,
      );
    }
  };
  for (const [id, limit] of LIMITS) check([`closed-loop/wrk${id}`, `closed-loop/autocannon${id}`], limit);
  for (const [id, limit] of IN_PROCESS) check([id], limit);
  return lines;
}
