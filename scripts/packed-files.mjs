// The files of the package, as npm would list them, without the second of processor time that npm takes for it.
// check-package.mjs fails if npm packs other ones.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

/** What npm always packs. */
const ALWAYS = ['LICENSE', 'README.md', 'package.json'];

/**
 * @param {string} root of the repository, which is built
 * @returns {string[]} paths relative to it, sorted
 */
export function packedFiles(root) {
  const { files } = /** @type {{ files: string[] }} */ (
    JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  );
  const omitted = new Set(files.filter((name) => name.startsWith('!')).map((name) => name.slice(1)));
  /** @param {string} file @returns {string[]} */
  const below = (file) => {
    const name = path.posix.basename(file);
    if (omitted.has(file) || name.startsWith('.') || name === 'node_modules') return [];
    if (!statSync(path.join(root, file)).isDirectory()) return [file];
    return readdirSync(path.join(root, file)).flatMap((entry) => below(`${file}/${entry}`));
  };
  return [...ALWAYS, ...files.filter((name) => !name.startsWith('!'))].flatMap(below).sort();
}
