import { spawn } from 'node:child_process';
import { processorTimeOfEndedChildren } from '../measure/processor-time.js';

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
