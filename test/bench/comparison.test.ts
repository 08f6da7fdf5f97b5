import { describe, expect, it } from 'vitest';
import { compareFigures as compareFiguresOf, type Order, type Verdict } from '../../bench/comparison.js';
import { median, shiftBetween, spread } from '../../bench/measure/statistics.js';
import type { Figure } from '../../bench/results.js';

/** Reproducible noise: Lehmer's generator, and Box and Muller's way from it to a normal distribution. */
function noise(seed: number): () => number {
  let state = seed;
  const uniform = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

const figure = (samples: number[], rest: Partial<Figure> = {}): Figure => ({
  ...{
    id: 'closed-loop/wrk/warm/d4/c32/cpu',
    suite: 'closed-loop',
    unit: 'µs',
    better: 'lower',
    parameters: {},
  },
  ...{ samples, median: median(samples), spread: spread(samples), samplesInFloors: null, floors: null },
  ...rest,
});

const compareFigures = (a: Figure, b: Figure, order: Order = 'in turn') => compareFiguresOf(a, b, order);

const draw = (normal: () => number, runs: number, centre: number, sigma: number) =>
  Array.from({ length: runs }, () => centre * Math.exp(sigma * normal()));

function countVerdicts(trials: number, verdict: (trial: number) => Verdict): Record<Verdict, number> {
  const counts: Record<Verdict, number> = { better: 0, worse: 0, 'no difference': 0, 'too few runs': 0 };
  for (let trial = 0; trial < trials; trial++) counts[verdict(trial)]++;
  return counts;
}

describe('the interval of a shift', () => {
  it('is that of the textbook for 5 against 5', () => {
    // P(U = 0) = 1/252 at either end.
    expect(shiftBetween([1, 2, 3, 4, 5], [11, 12, 13, 14, 15], 0.99)).toEqual({
      estimate: 10,
      low: 6,
      high: 14,
      confidence: 1 - 2 / 252,
    });
  });

  it('leaves out the outermost differences where there are samples enough', () => {
    const a = Array.from({ length: 8 }, (_, at) => at);
    const { low, high, confidence } = shiftBetween(a, a, 0.95);
    // The table of Mann and Whitney for 8 against 8: U = 13 is the critical value at 5 %.
    const differences = a.flatMap((x) => a.map((y) => x - y)).sort((x, y) => x - y);
    expect([low, high]).toEqual([differences[13], differences[50]]);
    expect(confidence).toBeGreaterThanOrEqual(0.95);
  });

  it('holds the true shift as often as it says', () => {
    const normal = noise(7);
    let held = 0;
    for (let trial = 0; trial < 2000; trial++) {
      const { low, high } = shiftBetween(draw(normal, 6, 1, 0.05), draw(normal, 6, 1, 0.05), 0.95);
      if (low <= 0 && high >= 0) held++;
    }
    expect(held / 2000).toBeGreaterThan(0.945);
  });
});

describe('comparing two results', () => {
  it('sees no difference where there is none, hundreds of figures long', () => {
    for (const [runs, sigma] of [
      [4, 0.02],
      [4, 0.05],
      [4, 0.2],
      [6, 0.1],
    ] as const) {
      const normal = noise(11);
      const counts = countVerdicts(
        3000,
        () =>
          compareFigures(figure(draw(normal, runs, 70, sigma)), figure(draw(normal, runs, 70, sigma)))
            .verdict,
      );
      expect(counts.better + counts.worse).toBeLessThanOrEqual(sigma < 0.2 ? 1 : 6);
    }
  });

  it('sees hardly any where the machine changed in between, by as much as from round to round', () => {
    const normal = noise(13);
    const wrong = (order: Order) => {
      const counts = countVerdicts(3000, () => {
        const [a, b] = [0, 1].map(() => figure(draw(normal, 4, 70 * Math.exp(0.05 * normal()), 0.05)));
        return compareFigures(a as Figure, b as Figure, order).verdict;
      });
      return counts.better + counts.worse;
    };
    expect(wrong('apart')).toBeLessThanOrEqual(15);
    expect(wrong('in turn')).toBeGreaterThan(40);
  });

  it('finds a regression past the threshold', () => {
    const normal = noise(3);
    const counts = countVerdicts(
      500,
      () =>
        compareFigures(figure(draw(normal, 5, 70, 0.01)), figure(draw(normal, 5, 70 * 1.12, 0.01))).verdict,
    );
    expect(counts.worse).toBeGreaterThan(475);
    expect(counts.better).toBe(0);
  });

  it('says nothing of a difference within the threshold', () => {
    const normal = noise(5);
    const counts = countVerdicts(
      500,
      () =>
        compareFigures(figure(draw(normal, 6, 70, 0.01)), figure(draw(normal, 6, 70 * 1.03, 0.01))).verdict,
    );
    expect(counts['no difference']).toBeGreaterThan(495);
  });

  it('knows which way is better', () => {
    const slow = [100, 101, 102, 103];
    const fast = slow.map((value) => value * 1.3);
    const rate = { id: 'closed-loop/wrk/warm/d4/c32/throughput', better: 'higher' } as const;
    expect(compareFigures(figure(slow, rate), figure(fast, rate)).verdict).toBe('better');
    expect(compareFigures(figure(fast, rate), figure(slow, rate)).verdict).toBe('worse');
    expect(compareFigures(figure(slow), figure(fast)).verdict).toBe('worse');
  });

  it('compares floors where there are some, so that a slower machine is no regression', () => {
    const a = figure([70, 71, 72, 73], { samplesInFloors: [1.4, 1.42, 1.44, 1.46] });
    const b = figure([140, 142, 144, 146], { samplesInFloors: [1.4, 1.42, 1.44, 1.46] });
    expect(compareFigures(a, b).verdict).toBe('no difference');
  });

  it('gives tails more room than throughput, and gates both', () => {
    const a = [100, 101, 102, 103];
    const b = a.map((value) => value * 1.12);
    const tail = { id: 'closed-loop/wrk/warm/d4/c32/p99' };
    expect(compareFigures(figure(a), figure(b))).toMatchObject({ verdict: 'worse', isGate: true });
    expect(compareFigures(figure(a, tail), figure(b, tail))).toMatchObject({
      verdict: 'no difference',
      isGate: true,
    });
  });

  it('gives no verdict on three runs', () => {
    expect(compareFigures(figure([1, 1, 1]), figure([9, 9, 9])).verdict).toBe('too few runs');
  });
});
