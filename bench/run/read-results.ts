import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { RESULTS_SCHEMA, type Results } from './results.js';

/**
 * Reads valid results.
 *
 * @param given a results.json, or its directory
 * @throws Error if they are of another version of the format, or void
 */
export function readResults(given: string): Results {
  const file = statSync(given).isDirectory() ? path.join(given, 'results.json') : given;
  const results = JSON.parse(readFileSync(file, 'utf8')) as Results;
  // The type promises this version, but the file may have another one.
  const found: number = results.schema;
  if (found !== RESULTS_SCHEMA) {
    throw new Error(
      `${file} has schema ${found}, expected ${RESULTS_SCHEMA}: measure it again with this version`,
    );
  }
  if (results.isVoid) throw new Error(`${file} is void: it saw wrong verdicts. Measure it again`);
  return results;
}
