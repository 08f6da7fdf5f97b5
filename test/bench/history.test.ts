import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { addEntries, entriesOf } from '../../bench/report/history.js';
import { drawHistory } from '../../bench/report/charts.js';
import { sampleResults } from './sample-results.js';

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-history-'));
const results = sampleResults(directory);
afterAll(() => rmSync(directory, { recursive: true }));

describe('the history', () => {
  it('has the median, the interval, the commit and the machine of each figure that is followed', () => {
    const entries = entriesOf(results);
    // Processor time and two percentiles, warm and cold, at three depths.
    expect(entries).toHaveLength(18);
    expect(entries.find(({ figure }) => figure === 'closed-loop/wrk/cold/d4/c32/cpu')).toEqual({
      ...{
        commit: 'c0ffee00c0ffee',
        at: '2026-01-15T08:00:00.000Z',
        machine: 'Sample, 2 cores, Node 20.20.2',
      },
      ...{
        figure: 'closed-loop/wrk/cold/d4/c32/cpu',
        unit: 'µs',
        median: 281.5,
        low: 280,
        high: 283,
        runs: 4,
      },
      ...{ floors: 5.63, isNoisy: true },
    });
  });

  it('keeps one entry for each commit, machine and figure, in the order of time', () => {
    const old = entriesOf(results);
    const later = entriesOf({ ...results, commit: 'f00d', startedAt: '2026-02-01T00:00:00.000Z' });
    const both = addEntries(addEntries([], later), old);
    expect(both.map(({ commit }) => commit.slice(0, 4))).toEqual([
      ...old.map(() => 'c0ff'),
      ...later.map(() => 'f00d'),
    ]);
    expect(addEntries(both, later)).toHaveLength(both.length);
  });

  it('is drawn', async () => {
    const svg = await drawHistory(entriesOf(results));
    for (const text of ['c0ffee00c', 'closed-loop/wrk/warm/d16/c32/cpu', 'Sample, 2 cores'])
      expect(svg).toContain(text);
  });
});
