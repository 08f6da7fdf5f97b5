import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

function findRoot(): string {
  let directory = import.meta.dirname;
  while (!existsSync(path.join(directory, 'package-lock.json'))) {
    const parent = path.dirname(directory);
    if (parent === directory)
      throw new Error(`no package-lock.json above ${import.meta.dirname}; run from a clone`);
    directory = parent;
  }
  return directory;
}

export const ROOT = findRoot();

/** The path of a source file that the compiler does not copy. */
export const source = (file: string): string => path.join(ROOT, 'bench', file);

/** The path of a compiled program, for child processes and threads. */
export const program = (file: string): string => path.join(ROOT, '.build', 'bench', file);

/** Runs a program to its end. @throws Error with what it wrote to stderr, if its exit code is not 0 */
export const runProgram = promisify(execFile);
