import { CommandError } from './command-error.js';
import { readText } from './files.js';

const JWT_LINE = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * A chain as a file: one receipt (compact JWT) a line, root first. A chain of one is a plain `.jwt` file.
 *
 * @example chainText([root, sub]); // 'eyJ…\neyJ…\n'
 */
export function chainText(receipts: readonly string[]): string {
  return receipts.map((jwt) => `${jwt}\n`).join('');
}

/** Whether a text looks like a chain file: at least one line, each of them a JWT. */
export function isChainText(text: string): boolean {
  const lines = linesOf(text);
  return lines.length > 0 && lines.every((line) => JWT_LINE.test(line));
}

/** The receipts of a text for which {@link isChainText} holds. */
export function receiptsOf(text: string): string[] {
  return linesOf(text);
}

/** Reads a chain file as `npx drs-verify issue` and `npx drs-verify delegate` write it. */
export async function readChainFile(file: string): Promise<string[]> {
  const text = await readText(file, 'a chain of receipts');
  if (isChainText(text)) return receiptsOf(text);
  throw new CommandError(
    `${file} is not a chain of receipts: expected one compact JWT a line, root first`,
    'give the file that `npx drs-verify issue` or `npx drs-verify delegate` wrote with -o',
  );
}

function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
