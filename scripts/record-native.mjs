// Writes src/service/native-digests.ts from the installed packages. `npm ci` has checked their integrity with the
// lockfile. Run it after an update of sodium-native or uWebSockets.js; a test compares the file with the packages.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * The digests of all binaries that Node may load from a package, for every platform and ABI, by path.
 * @param {string} name
 * @returns {[string, string][]}
 */
function digestsOf(name) {
  const folder = path.join(root, 'node_modules', name);
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.node'))
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort()
    .map((file) => [
      path.relative(folder, file).split(path.sep).join('/'),
      createHash('sha256').update(readFileSync(file)).digest('hex'),
    ]);
}

/** The text of the module. */
export function digestsModule() {
  const rows = (/** @type {string} */ name) =>
    digestsOf(name).map(([file, digest]) => `    '${file}':\n      '${digest}',\n`);
  const packages = ['sodium-native', 'uWebSockets.js'].map(
    (name) => `  '${name}': {\n${rows(name).join('')}  },\n`,
  );
  return [
    '/**\n * SHA-256 of every binary that Node may load, for all platforms and ABIs, by package and path.\n',
    ' * Written by `node scripts/record-native.mjs`.\n */\n// prettier-ignore\n',
    'export const NATIVE_DIGESTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {\n',
    ...packages,
    '};\n',
  ].join('');
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(path.join(root, 'src/service/native-digests.ts'), digestsModule());
