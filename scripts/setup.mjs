// Brings a clone up to date: installs packages if the lockfile changed, and builds if a source changed.
// As `setup.mjs?installed` it installs nothing, and fails where the packages are others.
// If the dev packages were left out (`npm ci --omit=dev`), it neither fetches nor builds: the existing build is used.
// Uses only Node, since it runs before any package is installed.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { noteCommit } from './commit.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const at = (/** @type {string[]} */ ...parts) => path.join(root, ...parts);

/** @param {string[]} files */
function fingerprint(files) {
  const hash = createHash('sha256');
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
 * Output goes to standard error, so that standard output is free for the command that runs afterwards. The command holds the
 * turn, too: it goes on where this process is killed alone.
 * @param {string} command
 * @param {string[]} args
 */
async function run(command, args) {
  const shell = process.platform === 'win32';
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 2, 2], shell });
  if (child.pid !== undefined) claimTurn(process.pid, child.pid);
  /** @type {unknown} */
  const code = (await once(child, 'exit').catch((/** @type {unknown} */ error) => [error]))[0];
  claimTurn(process.pid);
  if (code === 0) return;
  const reason = code instanceof Error ? code.message : `exit code ${String(code)}`;
  console.error(
    `set-up failed: \`${command} ${args.join(' ')}\` (${reason}); fix what it printed and run again`,
  );
  process.exit(1);
}

let isMyTurn = false;
const TURN = at('.drs-verify-setup');

/** Writes in one step who holds the turn. */
function claimTurn(/** @type {number[]} */ ...owners) {
  const mine = `${TURN}.${process.pid}`;
  writeFileSync(mine, owners.join(' '));
  renameSync(mine, TURN);
}

/**
 * Waits until no other set-up works on this folder: two `npm ci` at once remove one another's files. If two take the place of
 * one that was killed, the later has it.
 */
function takeTurn() {
  for (let told = false; !isMyTurn;) {
    const owner = readIfThere(TURN).split(' ').map(Number).find(isRunning);
    if (owner === undefined) claimTurn(process.pid);
    else if (!told) {
      told = true;
      console.error(
        `set-up: waiting for process ${owner}, which does the same; if it does not, delete ${TURN}`,
      );
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    isMyTurn = readIfThere(TURN) === String(process.pid);
  }
  process.once('exit', () => rmSync(TURN, { force: true }));
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    // 0 is no process, but this one's group.
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    // A process of another user.
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

async function install() {
  const mark = at('node_modules', '.drs-verify-lock');
  // A package may have another binary for another version of Node.
  const wanted = fingerprint(['package-lock.json']) + process.version;
  if (readIfThere(mark) === wanted) return;
  if (import.meta.url.endsWith('?installed')) {
    if (isInstalledByHand()) return;
    console.error('set-up failed: the packages are not those of package-lock.json; run `npm run setup`');
    process.exit(1);
  }
  takeTurn();
  if (readIfThere(mark) === wanted) return;
  // Packages that a user has installed stay as they are, for example without scripts (--ignore-scripts).
  if (existsSync(mark) || !isInstalledByHand()) {
    console.error('set-up: installing packages (the lockfile is new or has changed)');
    // The dev packages also where NODE_ENV is production, as in many shells of servers: they build.
    await run('npm', ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
  }
  writeFileSync(mark, wanted);
}

/** Whether node_modules holds what the lockfile names, according to npm's own record. Optional packages may be missing. */
function isInstalledByHand() {
  const noted = readIfThere(at('node_modules', '.package-lock.json'));
  if (noted === '') return false;
  const found = packagesOf(noted);
  return Object.entries(packagesOf(readFileSync(at('package-lock.json'), 'utf8'))).every(
    ([name, { integrity, optional }]) =>
      name === '' || (name in found ? found[name]?.integrity === integrity : optional),
  );
}

/** @param {string} lockfile */
function packagesOf(lockfile) {
  /** @type {(text: string) => { packages?: Record<string, { integrity?: string, optional?: boolean }> }} */
  const parse = JSON.parse;
  return parse(lockfile).packages ?? {};
}

/** The source files of dist/; `null` if there is only dist/, without sources. */
function listSources() {
  if (!existsSync(at('src'))) return null;
  return ['src', 'web']
    .flatMap((folder) => readdirSync(at(folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .concat(
      'docs/openapi.yaml',
      'package-lock.json',
      'scripts/build-web.mjs',
      'scripts/build.mjs',
      'scripts/commit.mjs',
      'scripts/platform.mjs',
      'tsconfig.build.json',
      'tsconfig.json',
    )
    .sort();
}

/** @param {boolean} mayBuild */
async function build(mayBuild) {
  const sources = listSources();
  if (sources === null && existsSync(at('dist', 'cli', 'main.js'))) return;
  const mark = at('dist', '.drs-verify-sources');
  const wanted = fingerprint(sources ?? []);
  if (readIfThere(mark) === wanted) return;
  if (!mayBuild) {
    const found = existsSync(mark) ? 'is older than the sources' : 'is missing';
    console.error(
      `set-up failed: dist/ ${found}, and the dev packages that build it are not installed; ` +
        'run `npm ci && npm run setup && node scripts/prune.mjs`',
    );
    process.exit(1);
  }
  takeTurn();
  if (readIfThere(mark) === wanted) return;
  console.error('set-up: building (a source is new or has changed)');
  await run(process.execPath, [at('scripts', 'build.mjs')]);
  writeFileSync(mark, wanted);
}

/** Whether packages were installed without the dev packages. */
function isProductionInstall() {
  return (
    existsSync(at('node_modules', '.package-lock.json')) && !existsSync(at('node_modules', 'typescript'))
  );
}

const [major = 0, minor = 0, patch = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor * 100 + patch < 1801)) {
  console.error(`drs-verify needs Node 20.18.1 or newer; this is ${process.version}`);
  process.exit(1);
}
const isProduction = isProductionInstall();
if (!isProduction) await install();
await build(!isProduction);
// Another commit may have the same sources.
if (!isProduction) noteCommit(root);
