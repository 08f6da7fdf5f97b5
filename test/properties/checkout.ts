import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A commit in a folder of its own, built with the packages of this checkout. */
export interface Checkout {
  readonly dir: string;
  remove(): void;
}

/** @throws Error if there is no such commit, or it does not build */
export function checkOut(commit: string): Checkout {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-properties-'));
  const dir = path.join(folder, 'checkout');
  const run = (command: string, args: readonly string[], cwd = '.') =>
    spawnSync(command, args, { cwd, stdio: 'inherit' }).status === 0;
  const remove = () => {
    run('git', ['worktree', 'remove', '--force', dir]);
    rmSync(folder, { recursive: true, force: true });
  };
  if (!run('git', ['worktree', 'add', '--quiet', '--detach', dir, commit])) {
    rmSync(folder, { recursive: true, force: true });
    throw new Error(
      `no checkout of ${commit}, expected a commit of this repository; see above what git says`,
    );
  }
  symlinkSync(path.resolve('node_modules'), path.join(dir, 'node_modules'));
  // An old commit may have type errors with the packages of today. What counts is that there is something to run.
  run(process.execPath, [path.resolve('node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'], dir);
  if (!existsSync(path.join(dir, 'dist'))) {
    remove();
    throw new Error(`${commit} does not build; see above what the compiler says`);
  }
  return { dir, remove };
}
