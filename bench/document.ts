import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { drawLatency, drawOverload } from './report/charts.js';
import { fillDocument, fillReadme } from './report/document.js';
import { ROOT } from './run/paths.js';
import { readResults } from './run/read-results.js';

/** The results in the repository, in the order of their names. The first is the main one. */
const KEPT = path.join(ROOT, 'bench', 'runs');

async function main(given: readonly string[]): Promise<void> {
  const files =
    given.length > 0
      ? given
      : readdirSync(KEPT)
          .filter((name) => name.endsWith('.json'))
          .sort()
          .map((name) => path.join(KEPT, name));
  const [first, ...longer] = files.map(readResults);
  if (first === undefined) throw new Error(`${KEPT} holds no results; copy the results.json of a run there`);
  const document = path.join(ROOT, 'docs', 'performance.md');
  writeFileSync(document, fillDocument(readFileSync(document, 'utf8'), first, longer));
  const readme = path.join(ROOT, 'README.md');
  writeFileSync(readme, fillReadme(readFileSync(readme, 'utf8'), [first, ...longer]));
  for (const results of [first, ...longer]) {
    for (const [name, draw] of [
      ['latency-by-depth', drawLatency],
      ['overload', drawOverload],
    ] as const) {
      const svg = await draw(results);
      if (svg !== null) writeFileSync(path.join(ROOT, 'docs', `${name}.svg`), `${svg}\n`);
    }
  }
  process.stdout.write(
    `filled docs/performance.md and README.md and drew its pictures from ${files.join(', ')}\n`,
  );
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`bench:document: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
