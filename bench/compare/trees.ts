import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../run/programs.js';

export interface Tree {
  readonly name: string;
  readonly folder: string;
}

const run = (command: string, args: readonly string[], cwd: string, timeout?: number) =>
  execFileSync(command, args, {
    cwd,
    timeout,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  }).trim();

/** The parts of a work tree that are copied: those that building the service needs. */
const SOURCES = ['src', 'package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'];

/**
 * Builds a version of the service.
 *
 * @param given a commit of this repository, or a folder with a working copy, whose changes are included
 * @param folder receives the build
 * @param options.mayInstall whether missing packages may be installed
 * @param options.timeoutMs how long installing, and the compiler, may take each
 * @throws Error if there is no such version, or it does not build
 */
export function buildTree(
  given: string,
  folder: string,
  { mayInstall = true, timeoutMs }: { readonly mayInstall?: boolean; readonly timeoutMs?: number } = {},
): Tree {
  const isFolder = existsSync(given) && statSync(given).isDirectory();
  if (isFolder && !existsSync(path.join(given, 'src')))
    throw new Error(`${given} has no src/, expected a commit or a working copy of this project`);
  const name = isFolder ? nameOf(given) : commitOf(given);
  if (isFolder) {
    mkdirSync(folder, { recursive: true });
    for (const file of SOURCES) cpSync(path.join(given, file), path.join(folder, file), { recursive: true });
  } else run('git', ['worktree', 'add', '--quiet', '--detach', folder, name], ROOT);
  linkPackages(folder, isFolder ? path.resolve(given) : ROOT, mayInstall, timeoutMs);
  run(
    process.execPath,
    // Types were checked when it was committed. Without that check, the build takes a third of the time.
    [
      path.join(folder, 'node_modules/typescript/bin/tsc'),
      ...['-p', 'tsconfig.build.json', '--noCheck', '--declaration', 'false', '--declarationMap', 'false'],
    ],
    folder,
    timeoutMs,
  );
  // The build also makes these files, which the service imports by name. They do not affect verdicts, so those of this
  // clone will do.
  const have = importsOf(ROOT);
  for (const [alias, file] of Object.entries(importsOf(folder))) {
    const made = path.join(ROOT, have[alias] ?? file);
    const copy = path.join(folder, file);
    if (file.endsWith('.json') && existsSync(made) && !existsSync(copy)) cpSync(made, copy);
  }
  return { name, folder };
}

/** The imports of a version that are one file, not one for each platform. */
function importsOf(root: string): Readonly<Record<string, string>> {
  const { imports = {} } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    imports?: Record<string, unknown>;
  };
  return Object.fromEntries(
    Object.entries(imports).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

export function removeTree(folder: string): void {
  if (existsSync(path.join(folder, '.git'))) run('git', ['worktree', 'remove', '--force', folder], ROOT);
  rmSync(folder, { recursive: true, force: true });
}

function nameOf(folder: string): string {
  const git = (...args: string[]) => run('git', args, folder);
  const commit = git('rev-parse', '--short=9', 'HEAD');
  return git('status', '--porcelain', '--', 'src') === '' ? commit : `${commit}+changes`;
}

/**
 * Links `node_modules` from this clone or from the folder that the version comes from, if the packages are the same.
 * Otherwise installs them.
 */
function linkPackages(folder: string, origin: string, mayInstall: boolean, timeoutMs?: number): void {
  const lockOf = (root: string) => {
    const file = path.join(root, 'package-lock.json');
    return existsSync(file) ? readFileSync(file, 'utf8') : null;
  };
  const owner = [origin, ROOT].find(
    (root) => existsSync(path.join(root, 'node_modules')) && servesLock(lockOf(root), lockOf(folder)),
  );
  if (owner === undefined && !mayInstall)
    throw new Error('its packages differ; npm run bench:compare installs them');
  if (owner === undefined)
    run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], folder, timeoutMs);
  else symlinkSync(path.join(owner, 'node_modules'), path.join(folder, 'node_modules'));
}

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly dev?: boolean }>>;
}

/** Whether every package that the service runs on, and the compiler, has the same version in both lockfiles. */
function servesLock(have: string | null, want: string | null): boolean {
  if (have === null || want === null) return false;
  const [owned, wanted] = [JSON.parse(have) as Lock, JSON.parse(want) as Lock];
  return Object.entries(wanted.packages).every(
    ([name, { version, dev }]) =>
      name === '' ||
      (dev === true && name !== 'node_modules/typescript') ||
      owned.packages[name]?.version === version,
  );
}

function commitOf(version: string): string {
  try {
    const args = ['rev-parse', '--quiet', '--verify', '--short=9', `${version}^{commit}`];
    return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  } catch (error) {
    throw new Error(`there is no commit or folder ${version}, expected a version of this project`, {
      cause: error,
    });
  }
}
