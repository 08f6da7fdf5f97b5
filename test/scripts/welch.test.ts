import { expect, it } from 'vitest';
import { compare } from '../../scripts/timing/welch.js';

const times = (mean: number) => Array.from({ length: 5000 }, (_, at) => mean + ((at * 7919) % 101));
it('tells two classes of times apart where one is slower, and not where neither is', () => {
  expect(compare(times(100), times(100)).verdict).toBe('no difference seen');
  expect(compare(times(100), times(103.5)).verdict).toBe('cannot tell');
  expect(compare(times(100).slice(0, 900), times(100)).verdict).toBe('cannot tell');
  expect(compare([], []).verdict).toBe('cannot tell');
  expect(compare(times(100), times(110))).toMatchObject({ verdict: 'they differ', nanoseconds: 10 });
});
