// Fails where a room of the house is larger than its budget in scripts/budgets.txt: lines of code, or words of documents.
// `node scripts/budgets.mjs [folder]`
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** The ends of files with code: what moves from one kind to another still counts. */
const KINDS = ['ts', 'tsx', 'cts', 'mts', 'js', 'mjs', 'cjs'];
const folder = process.argv[2] ?? '.';
const read = (/** @type {string} */ file) => readFileSync(path.join(folder, file), 'utf8');

/** How often a pattern occurs in the files that git tracks, or would add: no packages, nothing that was built. */
function count(/** @type {RegExp} */ pattern, /** @type {string[]} */ ...specs) {
  const list = [
    'ls-files',
    '--cached',
    '--others',
    '--exclude-standard',
    '--deduplicate',
    '-z',
    '--',
    ...specs,
  ];
  const files = execFileSync('git', list, { cwd: folder, encoding: 'utf8' }).split('\0').slice(0, -1);
  if (files.length === 0) throw new Error(`scripts/budgets.txt: there is no file ${specs[0]}`);
  // One that was deleted is listed until that is staged.
  const there = files.filter((file) => existsSync(path.join(folder, file)));
  return there.reduce((sum, file) => sum + (read(file).match(pattern)?.length ?? 0), 0);
}

for (const row of read('scripts/budgets.txt').split('\n')) {
  if (/^(#|$)/.test(row)) continue;
  const [, room = '', budget] = /^(\S+) (\d+)$/.exec(row) ?? [];
  if (budget === undefined) throw new Error(`scripts/budgets.txt: ${JSON.stringify(row)} is no row`);
  // The changelog grows with each version.
  const found =
    room === 'words'
      ? count(/\S+/g, '*.md', ':!CHANGELOG.md')
      : count(/\n/g, ...KINDS.map((kind) => `${room}/*.${kind}`));
  if (found <= Number(budget)) continue;
  console.error(`${room}: ${found}, budget ${budget}`);
  process.exitCode = 1;
}
