import { createInterface } from 'node:readline/promises';
import { describePolicy } from '../issue/index.js';
import type { Policy } from '../protocol/policy.js';
import { readLinesAt } from '../trust/followed-lines.js';
import { ROOTS } from '../trust/line-files.js';
import { CommandError, EXIT } from './command-error.js';
import { printable, showTime } from './terminal.js';

/** What the operator calls a principal; `null` if nobody says. */
export type NameOf = (did: string) => string | null;

/** The names in the files of trusted roots, if `TRUSTED_ROOTS_FILE` names any. */
export async function readRootNames(): Promise<NameOf> {
  const place = process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '';
  if (place === '') return () => null;
  try {
    const roots = await readLinesAt(ROOTS, place);
    return (did) => roots.get(did)?.name ?? null;
  } catch (error) {
    throw new CommandError(
      `cannot read names from TRUSTED_ROOTS_FILE: ${(error as Error).message.split('\n').join('; ')}`,
      'correct what the message names, or unset the variable',
    );
  }
}

/** The authority that a principal is about to delegate. Times in Unix seconds. */
export interface Grant {
  readonly audience: string;
  readonly command: string;
  readonly policy: Policy;
  readonly notBefore: number;
  readonly expiresAt: number | null;
}

/**
 * The text that a person agrees to, in plain words. If no other text is given, its digest goes into the receipt.
 */
export function agreementText(
  { audience, command, policy, notBefore, expiresAt }: Grant,
  nameOf: NameOf,
): string {
  const name = nameOf(audience);
  const who = name === null ? audience : `${name} (${audience})`;
  const until = expiresAt === null ? 'without end' : `until ${showTime(expiresAt)}`;
  // Of most commands, only the operators of tools know what they do.
  const activity =
    command === '/mcp/tools/call'
      ? 'call tools for me'
      : `act for me in calls whose name is ${JSON.stringify(command)}, or begins with ${JSON.stringify(`${command}/`)}`;
  const { may, mayNot, asks, toldToServer } = describePolicy(policy);
  const list = (title: string, items: readonly string[]) =>
    items.length === 0 ? [] : [title, ...items.map((item) => `- ${item}`)];
  return [
    `I let ${who} ${activity}, from ${showTime(notBefore)} ${until}.`,
    ...list('It may', may),
    ...list('It may not', mayNot),
    ...list('It asks you', asks),
    ...list('The tool server is told, and must enforce itself', toldToServer),
  ].join('\n');
}

/** Prints a text on standard error, escaped so that it cannot control the terminal. */
export function showText(text: string): void {
  const lines = text.split('\n').map((line) => `  ${printable(line)}\n`);
  process.stderr.write(lines.join(''));
}

/**
 * Asks the person at the terminal for agreement.
 *
 * @throws CommandError if the answer is not yes, or if there is no terminal
 */
export async function requireAgreement(): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new CommandError(
      'cannot ask whether you agree: standard input is not a terminal',
      'if the person has already agreed to this text, add --yes',
    );
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // Ctrl-C and Ctrl-D are no answer.
    const answer = await terminal.question('Do you agree? [y/N] ').catch(() => null);
    if (answer === null) process.stderr.write('\n');
    else if (/^\s*y(es)?\s*$/i.test(answer)) return;
  } finally {
    terminal.close();
  }
  throw new CommandError('you did not agree, so nothing was issued', 'answer y to agree', EXIT.no);
}
