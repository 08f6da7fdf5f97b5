import { describe, expect, it } from 'vitest';
import { checkParent, LIMIT, MIN_PAIRS } from '../../bench/compare/parent.js';
import { normal } from './noise.js';

describe('the comparison with the parent commit', () => {
  const same = [-0.01, 0.02, 0, 0.01];
  it.each([
    ['regression', same.map((effect) => effect + 0.15), same],
    ['none', same, same.toReversed()],
    ['none', same.map((effect) => effect - 0.3), same],
    // Slower, but by less than the limit.
    ['none', same.map((effect) => effect + 0.06), same],
    // The medians are far enough apart, but one pair is not above all of the others.
    ['cannot tell', [0.2, 0.2, 0.2, 0.015], same],
    // Pairs of the same version differ by more than the limit.
    ['cannot tell', same, [-0.1, 0.1, 0, 0]],
    ['cannot tell', [0.5, 0.5, 0.5], same],
    ['cannot tell', [], []],
  ] as const)('is "%s" for %j beside %j', (verdict, changed, itself) => {
    expect(checkParent({ changed, same: itself })).toBe(verdict);
  });

  it('raises a false alarm less than once in fifty, however much pairs scatter', () => {
    for (const scatter of [0.02, 0.1, 0.5]) {
      const gauss = normal(Math.round(100 * scatter));
      const pairs = () => Array.from({ length: MIN_PAIRS }, () => scatter * gauss());
      let alarms = 0;
      for (let trial = 0; trial < 2000; trial++)
        if (checkParent({ changed: pairs(), same: pairs() }) === 'regression') alarms++;
      expect(alarms / 2000).toBeLessThan(0.02);
    }
  });

  it('finds a slow-down of 20 % where pairs scatter by 3 %', () => {
    const gauss = normal(7);
    const pairs = (effect: number) => Array.from({ length: MIN_PAIRS }, () => effect + 0.03 * gauss());
    let found = 0;
    for (let trial = 0; trial < 500; trial++)
      if (checkParent({ changed: pairs(Math.log(1.2)), same: pairs(0) }) === 'regression') found++;
    expect(found / 500).toBeGreaterThan(0.95);
    expect(LIMIT).toBeLessThan(Math.log(1.2));
  });
});
