import { expect, it } from 'vitest';
import { limitsExceeded } from '../../bench/report/bars.js';
import type { Figure } from '../../bench/run/results.js';

/** Figures of a run, all with the same lowest sample, in floors. */
const all = (low: number, runs: number) => (id: string) =>
  ({ id, runs, floors: { median: 90, low, high: 100 } }) as unknown as Figure;

it('has no figure that was below its limit once: a busy moment is no broken version', () => {
  expect(limitsExceeded(all(1.2, 3))).toEqual([]);
});

it('names each figure that was above its limit each time, and its suite', () => {
  const found = limitsExceeded(all(90.123, 3));
  expect(found.map(({ suite }) => suite)).toEqual(Array<string>(7).fill('throughput'));
  expect(found[0]?.message).toContain(
    'throughput/warm/d1/c32/cpu is 90.12 floors at least, in 3 measurements',
  );
});

it('names what was not measured', () => {
  expect(limitsExceeded(() => undefined)).toHaveLength(7);
  const withoutFloors = (id: string) => ({ id, runs: 1, floors: null }) as Figure;
  expect(limitsExceeded(withoutFloors)[6]?.message).toBe('throughput/library/cold/d4/cpu was not measured');
});
