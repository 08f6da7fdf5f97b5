import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { drawBatches, drawLatency, drawOverload } from './report/charts.js';
import { addRun, fillPage, keep, keptFigures, writeKept, type KeptRun } from './report/kept.js';
import { ROOT, runMain } from './run/programs.js';
import { readResults } from './run/results.js';

const USAGE = `npm run bench:document -- [bench/results/<run> …]

Keeps the main figures of runs in bench/results.json, and fills the README and docs/performance.md from it: pictures, the
sentence, the table of overload. Use runs from a machine that does nothing else.
`;
const KEPT = path.join(ROOT, 'bench', 'results.json');
/** In px: as wide as a README is on most screens. */
const WIDTH = 640;

async function main(): Promise<number> {
  const given = process.argv.slice(2);
  if (given.includes('--help')) {
    process.stdout.write(USAGE);
    return 0;
  }
  const option = given.find((argument) => argument.startsWith('-'));
  if (option !== undefined) throw new Error(`${option} is no option, expected --help, or runs\n\n${USAGE}`);
  const known = existsSync(KEPT) ? (JSON.parse(readFileSync(KEPT, 'utf8')) as KeptRun[]) : [];
  const runs = given.map((place) => keep(readResults(place))).reduce(addRun, known);
  writeFileSync(KEPT, writeKept(runs));
  for (const name of ['README.md', 'docs/performance.md']) {
    const page = path.join(ROOT, name);
    writeFileSync(page, fillPage(readFileSync(page, 'utf8'), runs));
  }
  const pictures = { 'latency-by-depth': drawLatency, overload: drawOverload, batches: drawBatches };
  for (const [name, draw] of Object.entries(pictures)) {
    const svg = await draw(keptFigures(runs), WIDTH);
    if (svg !== null) writeFileSync(path.join(ROOT, 'docs', `${name}.svg`), `${svg}\n`);
  }
  process.stdout.write(
    `${runs.length} runs are kept; README.md and docs/performance.md are made from them\n`,
  );
  return 0;
}

await runMain('bench:document', main);
