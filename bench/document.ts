import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { documentOf, fillPage, runOf, writeKept, type KeptRun } from './report/page.js';
import { ROOT, runMain } from './run/programs.js';
import { readResults } from './run/results.js';

const USAGE = `npm run bench:document -- [bench/results/<run>]

Keeps the figures of a run with --all that pages show in bench/results.json, and fills the README and docs/performance.md
from it: sentences, tables, pictures. Use a run from a machine that does nothing else.
`;
const KEPT = path.join(ROOT, 'bench', 'results.json');

async function main(): Promise<number> {
  const given = process.argv.slice(2);
  if (given.includes('--help')) {
    process.stdout.write(USAGE);
    return 0;
  }
  const [place] = given;
  if (given.length > 1 || place?.startsWith('-') === true)
    throw new Error(`${given.join(' ')} is given, expected --help, or a run\n\n${USAGE}`);
  const run =
    place === undefined ? (JSON.parse(readFileSync(KEPT, 'utf8')) as KeptRun) : runOf(readResults(place));
  const { parts, pictures, kept } = await documentOf(run);
  writeFileSync(KEPT, writeKept(kept));
  for (const name of ['README.md', 'docs/performance.md']) {
    const page = path.join(ROOT, name);
    writeFileSync(page, fillPage(readFileSync(page, 'utf8'), parts));
  }
  for (const [name, svg] of Object.entries(pictures))
    writeFileSync(path.join(ROOT, 'docs', `${name}.svg`), svg);
  process.stdout.write(`${kept.figures.length} figures are kept; the pages are made from them\n`);
  return 0;
}

await runMain('bench:document', main);
