// Writes what is installed with drs-verify, and with the service, as CycloneDX 1.5: `npm run sbom -- --out sbom.cdx.json`; by default to
// standard output. Fails if a licence is not on the list of allowed ones.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { installedFor, serviceManifest } from './service-packages.mjs';

/** Licences under which drs-verify can be used and distributed under its own licence. */
const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
]);

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({ options: { out: { type: 'string' } } });

/** @type {(text: string) => unknown} */
const parse = JSON.parse;
/** @param {string} name */
const read = (name) => parse(readFileSync(path.join(root, name), 'utf8'));

/** @typedef {import('./service-packages.mjs').Locked} Locked */
// `npm sbom --omit dev` (npm 10 and 11) leaves out packages that a dev package needs too, such as pino. So it is run on
// a copy of the project without dev packages.
const manifest = serviceManifest(
  /** @type {{ dependencies: Record<string, string> }} */ (read('package.json')),
);
const lock = /** @type {{ packages: Record<string, Locked> }} */ (read('package-lock.json'));
const top = serviceManifest(
  /** @type {{ dependencies?: Record<string, string> }} */ (lock.packages[''] ?? {}),
);
for (const own of [manifest, top]) {
  // Optional peers of the library are not installed with the package.
  Reflect.deleteProperty(own, 'peerDependencies');
  Reflect.deleteProperty(own, 'peerDependenciesMeta');
}
lock.packages = {
  '': /** @type {Locked} */ (top),
  ...Object.fromEntries(installedFor(manifest, lock.packages).map((at) => [at, lock.packages[at]])),
};

const folder = mkdtempSync(path.join(tmpdir(), 'drs-sbom-'));
try {
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest));
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify(lock));
  // Where NODE_ENV is production, npm would leave out what the lockfile marks as `dev`: the service's optional peers.
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only', '--include=dev'];
  const text = execFileSync('npm', args, {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    shell: process.platform === 'win32',
  });
  /** @typedef {{ license?: { id?: string }, expression?: string }} Licence */
  const { components } =
    /** @type {{ components: { name: string, version: string, licenses?: Licence[] }[] }} */ (parse(text));
  const refused = components
    .map(({ name, version, licenses = [] }) => ({
      name: `${name}@${version}`,
      licence: licenses.map(({ license, expression }) => license?.id ?? expression).join(' '),
    }))
    .filter(({ licence }) => !ALLOWED.has(licence));
  for (const { name, licence } of refused)
    console.error(`${name} has the licence "${licence}", expected one of ${[...ALLOWED].join(', ')}`);
  if (refused.length > 0) process.exitCode = 1;
  if (values.out === undefined) process.stdout.write(text);
  else {
    writeFileSync(values.out, text);
    console.error(`${components.length} components in ${values.out}`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
