import { describe, expect, it } from 'vitest';
import { trendOf, type Point } from '../../scripts/soak/trend.js';

describe('a trend', () => {
  const points = (value: (at: number) => number) =>
    Array.from({ length: 120 }, (_, at) => [at / 120, value(at)] as const);
  const noise = (at: number) => ((at * 7919) % 13) - 6;
  it.each([
    ['no growth', (at: number) => 100 + noise(at)],
    ['no growth', (at: number) => 100 - at],
    ['grows', (at: number) => 100 + at + noise(at)],
    ['cannot tell', (at: number) => 100 + (Math.floor(at / 10) % 2) * 60],
  ] as const)('is called "%s"', (verdict, value) => {
    expect(trendOf(points(value), 10).verdict).toBe(verdict);
  });

  it('leaves out what follows from something else, and only that', () => {
    const rate = (at: number) => 1000 + (Math.floor(at / 20) % 3) * 100 + at;
    const beside = (grows: number) =>
      Array.from({ length: 120 }, (_, at): Point => [
        at / 120,
        100 + rate(at) / 10 + grows * at + noise(at),
        rate(at),
      ]);
    const withoutRate = beside(0).map(([hours, value]): Point => [hours, value]);
    expect(trendOf(withoutRate, 0).perHour).toBeGreaterThan(10);
    expect(trendOf(beside(0), 10)).toMatchObject({ verdict: 'no growth' });
    expect(trendOf(beside(1), 10)).toMatchObject({ verdict: 'grows' });
    expect(trendOf(beside(1), 10).perHour).toBeCloseTo(120, -1);
  });
});
