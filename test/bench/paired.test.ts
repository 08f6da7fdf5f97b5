import { describe, expect, it } from 'vitest';
import { effectOf, hodgesLehmann, logRatioOf, verdictOf, type Verdict } from '../../bench/compare/effects.js';
import { exitCodeOf, MIN_RESTARTS, type Finding } from '../../bench/compare/outcome.js';
import { readCompareOptions } from '../../bench/compare/run.js';
import { normal, unsteadyMachine } from './noise.js';

describe('the interval of an effect', () => {
  it('is that of the textbook', () => {
    // Depression scale factors of Hollander, Wolfe and Chicken, table 3.1, in their example 3.3.
    const before = [1.83, 0.5, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.3];
    const after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    const differences = after.map((value, at) => value - (before[at] ?? 0));
    expect(hodgesLehmann(differences)).toBeCloseTo(-0.46, 6);
    const { low, high, confidence } = effectOf(differences, 0.96);
    expect([low, high]).toEqual([expect.closeTo(-0.786, 6), expect.closeTo(-0.01, 6)]);
    expect(confidence).toBeCloseTo(0.961, 3);
  });

  it('takes in all where there are too few restarts, and says how sure that is', () => {
    expect(effectOf([0.1, 0.2, 0.3], 0.99)).toEqual({
      ...{ estimate: expect.closeTo(0.2, 9) as number, low: 0.1, high: 0.3 },
      confidence: 0.75,
    });
  });

  it('holds the true effect as often as it says', () => {
    const gauss = normal(3);
    let held = 0;
    for (let trial = 0; trial < 2000; trial++) {
      const { low, high } = effectOf(Array.from({ length: 9 }, gauss), 0.95);
      if (low <= 0 && 0 <= high) held++;
    }
    expect(held / 2000).toBeGreaterThan(0.94);
    expect(held / 2000).toBeLessThan(0.97);
  });
});

describe('the verdict', () => {
  const effect = (low: number, high: number) => ({ estimate: (low + high) / 2, low, high, confidence: 0.99 });
  it.each<[string, number, number, Verdict]>([
    ['above nothing and up to the limit', 0.01, 0.06, 'regression'],
    ['below the limit', -0.02, 0.04, 'no regression'],
    ['slower, by less than the limit', 0.01, 0.04, 'no regression'],
    ['faster', -0.2, -0.1, 'no regression'],
    ['both nothing and the limit inside', -0.01, 0.06, 'cannot tell'],
  ])('%s', (_, low, high, verdict) => {
    expect(verdictOf(effect(low, high), 0.05)).toBe(verdict);
  });

  it('makes the exit code by the gates alone', () => {
    const finding = (verdict: Verdict, isGate: boolean) => ({ verdict, isGate }) as Finding;
    expect(exitCodeOf([finding('no regression', true), finding('regression', false)])).toBe(0);
    expect(exitCodeOf([finding('cannot tell', true), finding('no regression', true)])).toBe(2);
    expect(exitCodeOf([finding('cannot tell', true), finding('regression', true)])).toBe(1);
  });
});

/**
 * A whole comparison on a machine whose speed changes by a factor of 2. Pairs of processes differ by 1.5 % by chance;
 * each has several quads, and the result is checked after each pair.
 */
function compare(seed: number, slowDown: number): { verdict: Verdict; restarts: number } {
  const machine = unsteadyMachine(seed);
  const gauss = normal(seed + 2);
  const quads = 12;
  const effects: number[] = [];
  let verdict: Verdict = 'cannot tell';
  while (verdict === 'cannot tell' && effects.length < 40) {
    const compiled = [Math.exp(0.01 * gauss()), Math.exp(0.01 * gauss()) * (1 + slowDown)] as const;
    const ratios = Array.from({ length: quads }, (_, at) => {
      const order = at % 2 === 0 ? ([0, 1, 1, 0] as const) : ([1, 0, 0, 1] as const);
      const taken: [number[], number[]] = [[], []];
      for (const side of order) taken[side].push(compiled[side] * machine());
      return logRatioOf({ a: taken[0], b: taken[1] });
    });
    effects.push(hodgesLehmann(ratios));
    if (effects.length >= MIN_RESTARTS) verdict = verdictOf(effectOf(effects, 0.99), Math.log(1.05));
  }
  return { verdict, restarts: effects.length };
}

describe('a comparison on a machine whose speed swings by 2', () => {
  const outcomes = (trials: number, slowDown: number) => {
    const all = Array.from({ length: trials }, (_, at) => compare(1000 * at + 17, slowDown));
    return (verdict: Verdict) => all.filter((one) => one.verdict === verdict).length;
  };

  it('raises a false alarm in fewer than one of fifty', () => {
    const count = outcomes(200, 0);
    expect(count('regression')).toBeLessThanOrEqual(4);
    expect(count('no regression')).toBeGreaterThan(180);
  });

  it.each([0.07, 0.1, 0.3])('finds a slow-down of %d', (slowDown) => {
    const count = outcomes(100, slowDown);
    expect(count('regression')).toBeGreaterThanOrEqual(98);
  });

  it('finds one as large as the limit nearly always', () => {
    expect(outcomes(100, 0.05)('regression')).toBeGreaterThanOrEqual(90);
  });

  it('would be misled by the same slices taken one side after the other', () => {
    // Why pairs are needed: without them, changes of the machine's speed look like a difference between the versions.
    let misled = 0;
    for (let seed = 0; seed < 200; seed++) {
      const machine = unsteadyMachine(31 * seed + 5);
      const side = () => Array.from({ length: 24 }, () => Math.log(machine()));
      const [a, b] = [side(), side()];
      if (Math.abs(hodgesLehmann(b) - hodgesLehmann(a)) > Math.log(1.05)) misled++;
    }
    expect(misled).toBeGreaterThan(50);
  });
});

describe('the command line', () => {
  it('is read', () => {
    expect(
      readCompareOptions(['--commits', 'a', 'b', '--depth', '1,4', '--warm', '--cold', '--detect', '2']),
    ).toMatchObject({
      versions: ['a', 'b'],
      cases: [
        { traffic: 'warm', depth: 1 },
        { traffic: 'warm', depth: 4 },
        { traffic: 'cold', depth: 1 },
        { traffic: 'cold', depth: 4 },
      ],
      detect: 0.02,
      gates: ['cpu', 'latency p50'],
    });
    expect(readCompareOptions(['--help'])).toBeNull();
  });

  it.each([
    [['a', 'b'], 'expected --commits'],
    [['--commits', 'a'], 'two versions'],
    [['--commits', 'a', 'b', '--depth', '0'], '--depth has "0"'],
    [['--commits', 'a', 'b', '--detect', 'x'], '--detect has "x"'],
    [['--commits', 'a', 'b', '--gate', 'p50'], '--gate has "p50"'],
    [['--commits', 'a', 'b', '--rounds', '4'], '--rounds'],
  ])('refuses %j', (args, message) => {
    expect(() => readCompareOptions(args)).toThrow(message);
  });
});
