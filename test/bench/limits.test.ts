import { expect, it } from 'vitest';
import { limitsExceeded } from '../../bench/report/limits.js';
import type { Figure } from '../../bench/run/results.js';

/** Figures of a run, all with the same samples, in floors. */
const all = (samples: readonly number[]) => (id: string) =>
  ({ id, samplesInFloors: samples.length === 0 ? null : samples }) as Figure;

it('has no figure that was below its limit once: a busy moment is no broken version', () => {
  expect(limitsExceeded(all([100, 1.2, 90]))).toEqual([]);
});

it('names each figure that was above its limit each time, and its suite', () => {
  const found = limitsExceeded(all([100, 90.123, 95]));
  expect(found.map(({ suite }) => suite)).toEqual([
    ...Array<string>(4).fill('closed-loop'),
    ...Array<string>(3).fill('in-process'),
  ]);
  expect(found[0]?.message).toContain(
    'closed-loop/wrk/warm/d1/c32/cpu is 90.12 floors at least, in 3 measurements',
  );
});

it('names what was not measured', () => {
  expect(limitsExceeded(() => undefined)).toHaveLength(7);
  expect(limitsExceeded(all([]))[6]?.message).toBe('in-process/in-thread/cold/d4/cpu was not measured');
});
