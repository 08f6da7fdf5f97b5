// Checks the properties on another commit: `node test/properties/on-commit.mjs 8affa2c [--only cache]`. It uses the
// packages of this checkout.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const [commit, ...rest] = process.argv.slice(2);
if (commit === undefined || commit.startsWith('-')) {
  console.error(
    'expected a commit: node test/properties/on-commit.mjs <commit> [--only <words>] [--secs <seconds>]',
  );
  process.exit(2);
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 */
function run(command, args, cwd = '.') {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  return status ?? 1;
}

const dir = path.join(mkdtempSync(path.join(tmpdir(), 'drs-properties-')), 'checkout');
if (run('git', ['worktree', 'add', '--detach', dir, commit]) !== 0) process.exit(1);
try {
  symlinkSync(path.resolve('node_modules'), path.join(dir, 'node_modules'));
  const tsc = path.resolve('node_modules/typescript/bin/tsc');
  run(process.execPath, [tsc, '-p', 'tsconfig.build.json'], dir);
  run(process.execPath, [tsc, '-p', 'test/oracle']);
  if (!existsSync(path.join(dir, 'dist'))) throw new Error(`${commit} does not build`);
  const main = 'test/oracle/.build/test/properties/main.js';
  process.exitCode = run(process.execPath, [main, '--dir', dir, ...rest]);
} finally {
  run('git', ['worktree', 'remove', '--force', dir]);
}
