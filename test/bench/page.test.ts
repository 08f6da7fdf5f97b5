import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { documentOf, fillPage, PART, runOf, writeKept, type KeptRun } from '../../bench/report/page.js';
import { fitModel } from '../../bench/report/model.js';
import { ROOT } from '../../bench/run/programs.js';
import { finderOf, type Results } from '../../bench/run/results.js';
import { sampleResults } from './sample-results.js';

const sample = sampleResults();
const KEPT = path.join(ROOT, 'bench/results.json');
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');

describe('the cost model', () => {
  const find = finderOf(sample);
  /** Results that follow a model exactly. */
  const modelled: Results = {
    ...sample,
    figures: sample.figures.map((figure) => {
      const [, traffic, depth] = /^throughput\/(warm|cold)\/d(\d+)\/c32\/cpu$/.exec(figure.id) ?? [];
      const signatures = traffic === 'warm' ? 1 : Number(depth) + 1;
      const body = find(figure.id.replace('/cpu', '/body'))?.median ?? 0;
      const median = 20 + 55 * signatures + (1.5 * body) / 1000;
      return traffic === undefined ? figure : { ...figure, median };
    }),
  };

  it('finds the constants again', () => {
    const { fixed, perSignature, perKilobyte, worstError } = fitModel(finderOf(modelled)) ?? {};
    expect(fixed).toBeCloseTo(20, 6);
    expect(perSignature).toBeCloseTo(55, 6);
    expect(perKilobyte).toBeCloseTo(1.5, 6);
    expect(worstError).toBeCloseTo(0, 6);
  });

  it('needs warm and cold traffic at three depths', () => {
    const figures = modelled.figures.filter(({ id }) => !id.includes('/cold/'));
    expect(fitModel(finderOf({ ...modelled, figures }))).toBeNull();
  });
});

describe('what documents say about a run', () => {
  it('is kept with medians, intervals, machine and commit, and no figure that is not shown', async () => {
    const { kept } = await documentOf(runOf(sample));
    expect(kept).toMatchObject({
      ...{ commit: 'c0ffee00c', machine: 'Sample, 2 cores, Node 20.20.2' },
      ...{ measurements: 2, noisy: 1, thrownAway: 7 },
    });
    expect(finderOf(kept)('throughput/cold/d4/c32/cpu')).toEqual({
      ...{ id: 'throughput/cold/d4/c32/cpu', unit: 'µs', runs: 4, median: 281.5, low: 280, high: 283 },
      floors: { median: 5.63, low: 5.6, high: 5.66 },
    });
    expect(finderOf(sample)('throughput/warm/d4/c1/cpu')).toBeDefined();
    expect(finderOf(kept)('throughput/warm/d4/c1/cpu')).toBeUndefined();
  });

  it('needs every figure', async () => {
    const without = (id: string) =>
      documentOf(runOf({ ...sample, figures: sample.figures.filter((figure) => figure.id !== id) }));
    await expect(without('usage/added/redis/cpu')).rejects.toThrow(
      'usage/added/redis/cpu was not measured: run it with --all',
    );
    await expect(without('throughput/warm/d4/c1/cpu')).resolves.toBeDefined();
  });

  it('has the machine, the noise, the tables and the sentences', async () => {
    const { parts } = await documentOf(runOf(sample));
    expect(parts['run']).toBe(
      '**Too noisy to be used: measure again.** Measured 2026-01-15 at commit c0ffee00c by `npm run bench -- --all`: Sample, 2 cores, Node 20.20.2, 4 runs (overload: 1). ' +
        '7 noisy measurements were thrown away, 1 of the 2 that count are noisy. **1 floor = 50.0 µs.**',
    );
    const quiet = await documentOf({ ...runOf(sample), measurements: 10 });
    expect(quiet.parts['run']).toMatch(/^Measured/);
    expect(parts['cost']).toContain('| 4 | 1.47 (1.44–1.50) | 5.63 (5.60–5.66) |');
    expect(parts['latency']).toMatch(/\| cold, depth 16 \(529 \/s\) \|( [\d.]+(\/[\d.]+){3} \|){5}/);
    expect(parts['overload']).toContain('| default (4,000 /s) | 64 | 75 % | 73 % | 68 % |');
    expect(parts['call']).not.toMatch(/\d of that/);
    expect(quiet.parts['call']).toContain('0.47 to 0.47 of that for all else');
    expect(quiet.parts['call']).toContain('needs 1.5 to 3.0 times the CPU');
  });

  it('says whether the bar of the latency is met', async () => {
    const { parts } = await documentOf(runOf(sample));
    expect(parts['latency']).toMatch(/a warm p99 at half the capacity is met: [\d.]+ to [\d.]+ floors/);
    const slow = sample.figures.map((figure) =>
      figure.id === 'latency/warm/d16/at50/p99'
        ? { ...figure, floors: { median: 20.1, low: 20, high: 21 } }
        : figure,
    );
    const missed = await documentOf(runOf({ ...sample, figures: slow }));
    expect(missed.parts['latency']).toMatch(
      /a warm p99 at half the capacity is not met: [\d.]+ to 20\.1 floors/,
    );
  });

  it('fills the generated parts of a page, and knows each by its name', () => {
    const place = (name: string) => `before\n<!-- measured: ${name} -->\nstale\n<!-- end -->\nafter\n`;
    expect(fillPage(place('cost'), { cost: '7 floors' })).toBe(
      'before\n<!-- measured: cost -->\n\n7 floors\n\n<!-- end -->\nafter\n',
    );
    expect(() => fillPage(place('cots'), { cost: '' })).toThrow('there is no part cots');
  });
});

const PAGES = ['README.md', 'docs/performance.md'];
/** Figures with a unit that are no measurements of ours. */
const CONSTANTS: readonly string[] = [];

const figuresIn = (page: string) =>
  [...page.matchAll(/[\d.,]+ ?(?:floors?\b|µs|ms\b|\/s|%)/g)]
    .map(([figure]) => figure)
    .filter((figure) => !CONSTANTS.includes(figure));

it('finds figures by their units', () => {
  expect(figuresIn('2.07 floors, 3 ms, 1,000/s, 29 µs, 68 %, 900 bytes, one floor')).toHaveLength(5);
});

it('has every figure of docs/performance.md: none stands outside of what is made from it', () => {
  expect(figuresIn(read('docs/performance.md').replaceAll(PART, ''))).toEqual([]);
});

describe('bench/results.json', () => {
  const text = () => readFileSync(KEPT, 'utf8');
  const made = () => documentOf(JSON.parse(text()) as KeptRun);

  it('has what the pages show and nothing else, a line for each figure', async () => {
    const { kept } = await made();
    expect(writeKept(kept)).toBe(text());
    expect(text().split('\n').length).toBeGreaterThan(kept.figures.length);
  });

  it.each(PAGES)('says what %s says', async (name) => {
    const page = read(name);
    expect(fillPage(page, (await made()).parts)).toBe(page);
    expect(page).toMatch(PART);
  });

  it('has the figures of the pictures', async () => {
    for (const [name, svg] of Object.entries((await made()).pictures))
      expect(read(`docs/${name}.svg`), name).toBe(svg);
  });
});
