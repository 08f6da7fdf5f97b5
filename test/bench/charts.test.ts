import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { intervalOf } from '../../bench/measure/interval.js';
import { checkBars } from '../../bench/report/bars.js';
import { drawLatency, drawOverload, latencyRows } from '../../bench/report/charts.js';
import type { Figure } from '../../bench/run/results.js';
import { normal } from './noise.js';
import { SAMPLE_FLOOR, sampleResults } from './sample-results.js';

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-charts-'));
const results = sampleResults(directory);
afterAll(() => rmSync(directory, { recursive: true }));

describe('the interval of a median', () => {
  it('is that of the binomial table', () => {
    const runs = (n: number) => Array.from({ length: n }, (_, at) => at + 1);
    // n = 10: the second and the ninth, 97.9 %; n = 6: all, 96.9 %; n = 4: all there is, 87.5 %.
    expect(intervalOf(runs(10))).toEqual({
      estimate: 5.5,
      low: 2,
      high: 9,
      confidence: expect.closeTo(0.979, 3) as number,
    });
    expect(intervalOf(runs(6))).toEqual({
      estimate: 3.5,
      low: 1,
      high: 6,
      confidence: expect.closeTo(0.969, 3) as number,
    });
    expect(intervalOf(runs(4))).toEqual({ estimate: 2.5, low: 1, high: 4, confidence: 0.875 });
    expect(intervalOf([7])).toEqual({ estimate: 7, low: 7, high: 7, confidence: 0 });
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
  const id = 'closed-loop/wrk/warm/d4/c128/cpu';
  const verdictOf = (samplesInFloors: number[]) => {
    const figure = results.figures.find((one) => one.id === id) as Figure;
    const samples = samplesInFloors.map((value) => value * SAMPLE_FLOOR);
    return checkBars({ ...results, figures: [{ ...figure, samples, samplesInFloors }] })[0]?.verdict;
  };
  // Bar 1.6, aim 1.45.
  it.each([
    ['aim met', [1.3, 1.35, 1.4, 1.44]],
    ['met', [1.4, 1.5, 1.5, 1.59]],
    ['not met', [1.61, 1.7, 1.7, 1.8]],
    ['cannot tell', [1.5, 1.55, 1.62, 1.7]],
    ['cannot tell', [1.3]],
  ])('is "%s" for %j', (verdict, samples) => expect(verdictOf(samples)).toBe(verdict));
});

describe('the charts', () => {
  it('have latency by depth with intervals and the floor', async () => {
    const rows = latencyRows(results);
    expect(rows.filter(({ series }) => series === 'floor')).toHaveLength(6 * 2 * 3);
    expect(rows).toContainEqual({
      ...{ traffic: 'cold', depth: 16, load: 50, series: 'floor' },
      ...{ value: 17 * SAMPLE_FLOOR, low: 17 * SAMPLE_FLOOR, high: 17 * SAMPLE_FLOOR },
    });
    const p99 = rows.filter(({ series }) => series === 'p99');
    expect(p99).toHaveLength(6 * 2 * 3);
    for (const { low, value, high } of p99) {
      expect(Number(low)).toBeLessThan(Number(value));
      expect(Number(value)).toBeLessThan(Number(high));
    }
    const svg = await drawLatency(results);
    expect(svg).toMatch(/^<svg/);
    for (const text of ['warm', 'cold', '25 % of capacity', 'p99.9', 'floor', 'receipts in the chain'])
      expect(svg).toContain(text);
  });

  it('have overload with and without workers', async () => {
    const svg = await drawOverload(results);
    for (const text of ['WORKER_THREADS=0', 'right answers', 'p99 of accepted', 'times the capacity'])
      expect(svg).toContain(text);
  });

  it('are left out where nothing was measured', async () => {
    const nothing = { ...results, figures: [] };
    expect([await drawLatency(nothing), await drawOverload(nothing)]).toEqual([null, null]);
  });
});
