import { describe, expect, it } from 'vitest';
import { MIN_RESTARTS } from '../../bench/compare/outcome.js';
import { checkParent, LIMIT } from '../../bench/compare/parent.js';
import { normal } from './noise.js';

describe('the comparison with the parent commit', () => {
  const same = [-0.01, 0.02, 0, 0.01, -0.02, 0.015, -0.005, 0.01];
  const above = (by: number) => same.map((effect) => effect + by);
  it.each([
    ['regression', above(0.15)],
    ['no regression', same],
    ['no regression', above(-0.3)],
    // Slower, but by less than the limit.
    ['no regression', above(0.06)],
    // Slower, and perhaps by the limit, but not probably.
    ['cannot tell', above(0.088)],
    // Most pairs are far above, but one is not.
    ['cannot tell', [...above(0.2).slice(1), -0.015]],
    // Pairs differ by more than the limit.
    ['cannot tell', [-0.1, 0.2, 0, 0.1, -0.2, 0.15, -0.05, 0.1]],
    ['cannot tell', [0.5, 0.5, 0.5]],
    ['cannot tell', []],
  ] as const)('is "%s" for %j', (verdict, effects) => {
    expect(checkParent(effects)).toBe(verdict);
  });

  it('raises a false alarm less than once in fifty, however much pairs scatter', () => {
    for (const scatter of [0.02, 0.1, 0.5]) {
      const gauss = normal(Math.round(100 * scatter));
      let alarms = 0;
      for (let trial = 0; trial < 2000; trial++) {
        // It looks after each pair from the eighth on, until it can tell.
        const effects = Array.from({ length: MIN_RESTARTS }, () => scatter * gauss());
        while (checkParent(effects) === 'cannot tell' && effects.length < 12) effects.push(scatter * gauss());
        if (checkParent(effects) === 'regression') alarms++;
      }
      expect(alarms / 2000).toBeLessThan(0.02);
    }
  });

  it('finds a slow-down of 20 % where pairs scatter by 3 %', () => {
    const gauss = normal(7);
    let found = 0;
    for (let trial = 0; trial < 500; trial++) {
      const effects = Array.from({ length: MIN_RESTARTS }, () => Math.log(1.2) + 0.03 * gauss());
      if (checkParent(effects) === 'regression') found++;
    }
    expect(found / 500).toBeGreaterThan(0.95);
    expect(LIMIT).toBeLessThan(Math.log(1.2));
  });
});
