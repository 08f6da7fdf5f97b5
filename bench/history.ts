import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { drawHistory } from './report/charts.js';
import { addEntries, entriesOf, type HistoryEntry } from './report/history.js';
import { ROOT } from './run/paths.js';
import { readResults } from './run/read-results.js';

async function main(given: readonly string[]): Promise<void> {
  const file = path.join(ROOT, 'bench', 'history.json');
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as HistoryEntry[]) : [];
  const entries = given.reduce((all, run) => {
    const results = readResults(run);
    if (results.isDirty) throw new Error(`${run} is of a working copy with changes, which no commit names`);
    return addEntries(all, entriesOf(results));
  }, known);
  if (entries.length === 0)
    throw new Error(
      `${file} is empty, expected results to add: npm run bench:history -- bench/results/<run>`,
    );
  if (given.length > 0) writeFileSync(file, `${JSON.stringify(entries, null, 1)}\n`);
  const picture = path.join(ROOT, 'docs', 'performance-history.svg');
  writeFileSync(picture, `${await drawHistory(entries)}\n`);
  process.stdout.write(
    `${entries.length} figures of ${new Set(entries.map(({ commit }) => commit)).size} commits; drew ${picture}\n`,
  );
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`bench:history: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
