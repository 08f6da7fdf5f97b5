// Brings a clone up to date: installs when the lockfile changed, builds when a source changed.
// Uses nothing but Node, since it runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const root = fileURLToPath(new URL('..', import.meta.url));
const at = (/** @type {string[]} */ ...parts) => path.join(root, ...parts);

/** @param {string[]} files */
function fingerprint(files) {
  const hash = createHash('sha256').update(process.version);
  for (const file of files)
    hash
      .update(file)
      .update('\0')
      .update(readFileSync(at(file)))
      .update('\0');
  return hash.digest('hex');
}

/** @param {string} file */
const readIfThere = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');

/**
 * Output goes to standard error, so that what runs afterwards owns standard output.
 * @param {string} command
 * @param {string[]} args
 */
function run(command, args) {
  const shell = process.platform === 'win32';
  const result = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2], shell });
  if (result.status === 0) return;
  const reason = result.error ? result.error.message : `exit code ${result.status}`;
  console.error(
    `set-up failed: \`${command} ${args.join(' ')}\` (${reason}); fix what it printed and run again`,
  );
  process.exit(1);
}

function install() {
  const mark = at('node_modules', '.drs-verify-lock');
  const wanted = fingerprint(['package-lock.json']);
  if (readIfThere(mark) === wanted) return;
  console.error('set-up: installing packages (the lockfile is new or has changed)');
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error']);
  writeFileSync(mark, wanted);
}

function build() {
  const sources = readdirSync(at('src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .sort();
  const mark = at('dist', '.drs-verify-sources');
  const wanted = fingerprint(['tsconfig.json', 'tsconfig.build.json', 'package-lock.json', ...sources]);
  if (readIfThere(mark) === wanted) return;
  console.error('set-up: building (a source is new or has changed)');
  rmSync(at('dist'), { recursive: true, force: true });
  run(process.execPath, [at('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json']);
  writeFileSync(mark, wanted);
}

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 12)) {
  console.error(`drs-verify needs Node 20.12 or newer; this is ${process.version}`);
  process.exit(1);
}
install();
build();
