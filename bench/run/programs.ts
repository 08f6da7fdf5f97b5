import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { processorTimeOfEndedChildren } from '../measure/processor-time.js';

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

/** The root of the clone. */
export const ROOT = findRoot();

/** The path of a source file that the compiler does not copy. */
export const source = (file: string): string => path.join(ROOT, 'bench', file);

/** The path of a compiled program, for child processes and threads. */
export const program = (file: string): string => path.join(ROOT, '.build', 'bench', file);

/** The output of a program that has ended, and the processor time it took in µs. */
export interface Ended {
  readonly output: string;
  readonly processorTime: number | null;
}

/**
 * Runs a program to its end. Run one at a time, or the processor time includes that of others.
 *
 * @throws Error with the program's output, if its exit code is not 0
 */
export async function runProgram(command: string, args: readonly string[]): Promise<Ended> {
  const before = processorTimeOfEndedChildren();
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${errors || output}`.slice(0, 4000));
  const after = processorTimeOfEndedChildren();
  return { output, processorTime: before === null || after === null ? null : after - before };
}
