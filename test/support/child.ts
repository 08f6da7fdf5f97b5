import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** Whether a child has ended, by itself or by a signal. */
export const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null;

/**
 * Waits until a child has ended: also one that has before, of which Node tells nobody again.
 *
 * @returns its exit code and the signal that ended it
 */
export async function ended(child: ChildProcess): Promise<[number | null, NodeJS.Signals | null]> {
  if (!hasEnded(child)) await once(child, 'exit');
  return [child.exitCode, child.signalCode];
}

/** Asks a child to end, and waits until it has. */
export async function end(child: ChildProcess): Promise<void> {
  child.kill();
  await ended(child);
}

/**
 * The lines of an output, which only line feeds end. For `readline` of Node 24 and later, U+2028 and U+2029 end lines, too,
 * which JSON may hold.
 */
export async function* linesOf(output: Readable): AsyncGenerator<string, void> {
  let rest = '';
  for await (const chunk of output.setEncoding('utf8') as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}

/**
 * The first line of an output of a child. What follows is thrown away.
 *
 * @throws Error if the output ends before, as it does where the child dies
 */
export async function firstLine(output: Readable): Promise<string> {
  for await (const line of createInterface({ input: output })) {
    output.resume();
    return line;
  }
  throw new Error('the child ended before it wrote a line');
}
