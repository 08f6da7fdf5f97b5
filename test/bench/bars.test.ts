import { describe, expect, it } from 'vitest';
import { intervalOf } from '../../bench/measure/statistics.js';
import { checkBars } from '../../bench/report/bars.js';
import { Recorder } from '../../bench/run/suite.js';
import { normal } from './noise.js';
import { SAMPLE_FLOOR, sampleResults } from './sample-results.js';

const results = sampleResults();

describe('the interval of a median', () => {
  it('is that of the binomial table', () => {
    const runs = (n: number) => Array.from({ length: n }, (_, at) => at + 1);
    // n = 10: the second and the ninth, 97.9 %; n = 6: all, 96.9 %; n = 4: all there is, 87.5 %.
    expect(intervalOf(runs(10))).toEqual({ median: 5.5, low: 2, high: 9 });
    expect(intervalOf(runs(6))).toEqual({ median: 3.5, low: 1, high: 6 });
    expect(intervalOf(runs(4))).toEqual({ median: 2.5, low: 1, high: 4 });
    expect(intervalOf([7])).toEqual({ median: 7, low: 7, high: 7 });
  });

  it('holds the true median as often as it says', () => {
    const gauss = normal(5);
    let held = 0;
    for (let trial = 0; trial < 2000; trial++) {
      const { low, high } = intervalOf(Array.from({ length: 10 }, gauss));
      if (low <= 0 && 0 <= high) held++;
    }
    expect(held / 2000).toBeGreaterThan(0.965);
    expect(held / 2000).toBeLessThan(0.99);
  });
});

describe('the verdict on a bar', () => {
  const verdictOf = (id: string, samples: number[]) => {
    const recorder = new Recorder();
    recorder.floorWas(SAMPLE_FLOOR);
    for (const value of samples) recorder.record(id, value);
    return checkBars({ ...results, figures: recorder.figures() })[0]?.verdict;
  };
  // At most 1.6 floors.
  it.each([
    ['met', [1.4, 1.5, 1.5, 1.59]],
    ['not met', [1.61, 1.7, 1.7, 1.8]],
    ['cannot tell', [1.5, 1.55, 1.62, 1.7]],
    ['cannot tell', [1.3]],
  ])('is "%s" for %j', (verdict, floors) => {
    const samples = floors.map((value) => value * SAMPLE_FLOOR);
    expect(verdictOf('throughput/warm/d4/c128/cpu', samples)).toBe(verdict);
  });

  // At least 13,000 a second at a floor of 52 µs: 13,520 at one of 50.
  it.each([
    ['met', [13_600, 14_000]],
    ['not met', [13_000, 13_400]],
    ['cannot tell', [13_000, 14_000]],
  ])('of a rate is "%s" for %j', (verdict, samples) =>
    expect(verdictOf('throughput/warm/d4/c32/throughput', samples)).toBe(verdict),
  );
});
