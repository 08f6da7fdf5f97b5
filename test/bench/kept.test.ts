import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { addRun, fillPage, keep, keptFigures, writeKept, type KeptRun } from '../../bench/report/kept.js';
import { fitModel } from '../../bench/report/model.js';
import { ROOT } from '../../bench/run/programs.js';
import { finderOf, type Results } from '../../bench/run/results.js';
import { sampleResults } from './sample-results.js';

const sample = sampleResults();

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
    const { fixed, perSignature, perKilobyte, worstError } = fitModel(modelled) ?? {};
    expect(fixed).toBeCloseTo(20, 6);
    expect(perSignature).toBeCloseTo(55, 6);
    expect(perKilobyte).toBeCloseTo(1.5, 6);
    expect(worstError).toBeCloseTo(0, 6);
  });

  it('needs warm and cold traffic at three depths', () => {
    const figures = modelled.figures.filter(({ id }) => !id.includes('/cold/'));
    expect(fitModel({ ...modelled, figures })).toBeNull();
  });
});

describe('the kept results', () => {
  it('have medians, intervals, machine and commit, and no samples', () => {
    const run = keep(sample);
    expect(run).toMatchObject({
      commit: 'c0ffee00c0ffee',
      machine: 'Sample, 2 cores, Node 20.20.2',
      noisy: '1 of 2',
    });
    expect(finderOf(keptFigures([run]))('throughput/cold/d4/c32/cpu')).toEqual({
      ...{ id: 'throughput/cold/d4/c32/cpu', unit: 'µs', runs: 4, median: 281.5, low: 280, high: 283 },
      floors: { median: 5.63, low: 5.6, high: 5.66 },
    });
  });

  it('are replaced by later figures, and a run of which nothing is left goes', () => {
    const old = keep(sample);
    const later = { ...old, commit: 'f00d', figures: old.figures.slice(0, 2) };
    const both = addRun([old], later);
    expect(both.map(({ figures }) => figures.length)).toEqual([old.figures.length - 2, 2]);
    expect(addRun(both, { ...old, commit: 'beef' }).map(({ commit }) => commit)).toEqual(['beef']);
  });

  it('in the repository are written as they are read, with a line for each figure', () => {
    const text = readFileSync(path.join(ROOT, 'bench/results.json'), 'utf8');
    const runs = JSON.parse(text) as KeptRun[];
    expect(writeKept(runs)).toBe(text);
    expect(runs.flatMap(({ figures }) => figures).length).toBeLessThan(text.split('\n').length);
  });
});

describe('a page', () => {
  const place = (name: string) => `<!-- measured: ${name} -->\nstale\n<!-- end -->\n`;

  it('gets the picture with its source, and the ratio to the best alternative', () => {
    const text = `before\n${place('picture')}${place('ratio')}`;
    const filled = fillPage(text, [keep(sample)]);
    expect(filled).toContain('(docs/latency-by-depth.svg)');
    expect(filled).toContain('commit c0ffee00c');
    expect(filled).toContain('needs 1.4 to 1.4 times the CPU');
    expect(filled).not.toContain('stale');
    expect(fillPage(filled, [keep(sample)])).toBe(filled);
  });

  it('keeps a part for which there are no figures', () => {
    expect(fillPage(place('ratio'), [])).toBe(place('ratio'));
  });

  it.each(['README.md', 'docs/performance.md'])('%s says what the kept results say', (name) => {
    const text = readFileSync(path.join(ROOT, name), 'utf8');
    const runs = JSON.parse(readFileSync(path.join(ROOT, 'bench/results.json'), 'utf8')) as KeptRun[];
    expect(fillPage(text, runs)).toBe(text);
    expect(text).toMatch(
      name === 'README.md'
        ? /needs \d\.\d to \d\.\d times the CPU/
        : /\| none \(\d+\/s\) \| 4000 \| \d+ % \|/,
    );
  });

  it('gets the table of overload, in percent of the capacity', () => {
    const figure = (id: string, median: number) => ({
      ...{ id: `overload/w-${id}`, unit: 'ratio', runs: 1, median, low: median, high: median, floors: null },
    });
    const figures = ['default', '0'].flatMap((workers) => [
      figure(`${workers}/capacity`, 4000),
      figure(`${workers}/pool-64/x2/goodput`, 3200),
    ]);
    const filled = fillPage(place('overload'), [{ ...keep(sample), figures }]);
    expect(filled).toContain('commit c0ffee00c: Sample, 2 cores, Node 20.20.2.');
    expect(filled).toContain('| workers | connections | 2× | 3× | 5× |');
    expect(filled).toContain('| default (4000/s) | 64 | 80 % |');
  });
});
