import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { readResults } from '../../bench/run/results.js';
import { sampleResults } from './sample-results.js';

it('takes only results that count', () => {
  const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-results-'));
  const file = path.join(directory, 'results.json');
  try {
    const results = sampleResults();
    writeFileSync(file, JSON.stringify(results));
    expect(readResults(directory)).toEqual(results);
    writeFileSync(
      file,
      JSON.stringify({ ...results, wrongVerdicts: [{ where: 'x', count: 1, first: 'y' }] }),
    );
    expect(() => readResults(directory)).toThrow(/is void: it saw wrong verdicts/);
    writeFileSync(file, JSON.stringify({ ...results, schema: 0 }));
    expect(() => readResults(directory)).toThrow(/has schema 0, expected 5/);
    expect(() => readResults('no/run')).toThrow(
      'there is no no/run/results.json, expected a folder of bench/results/',
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});
