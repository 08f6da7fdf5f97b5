// Removes the packages that only development needs, like `npm prune --omit=dev`, but leaves those that the service can load.
// Fetches nothing: what stays has been checked against the lockfile when `npm ci` installed it.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { serviceManifest } from './service-packages.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const file = fileURLToPath(new URL('../package.json', import.meta.url));
const text = readFileSync(file, 'utf8');
/** @type {(text: string) => { devDependencies?: Record<string, string> }} */
const parse = JSON.parse;

// npm decides by package.json what is for development.
writeFileSync(file, JSON.stringify(serviceManifest(parse(text))));
try {
  const { status } = spawnSync(
    'npm',
    ['prune', '--omit=dev', '--no-save', '--offline', '--no-audit', '--no-fund', '--loglevel=error'],
    { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' },
  );
  process.exitCode = status ?? 1;
} finally {
  writeFileSync(file, text);
}
