import { styleText } from 'node:util';
import type { Explained } from '../gate/codes.js';
import { UNPRINTABLE, withoutControls } from '../verify/unprintable.js';

/** Colours for a stream: only on a terminal, and not if `NO_COLOR` is set. https://no-color.org */
export function coloursFor(stream: { readonly isTTY?: boolean }) {
  const { NO_COLOR, TERM } = process.env;
  const isColoured = stream.isTTY === true && (NO_COLOR ?? '') === '' && TERM !== 'dumb';
  // Of itself, `styleText` would also ask its own stream, and colour a pipe if FORCE_COLOR is set.
  const style = (colour: 'bold' | 'dim' | 'red' | 'green') => (text: string) =>
    isColoured ? styleText(colour, text, { validateStream: false }) : text;
  return { bold: style('bold'), dim: style('dim'), red: style('red'), green: style('green') };
}

export const { bold, dim, red, green } = coloursFor(process.stdout);

/**
 * Escapes text from a file or the network: the result is one line and cannot control the terminal.
 *
 * @example printable('a\u001b[2J'); // 'a\\u{1b}[2J'
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/**
 * A value as JSON that cannot control a terminal. It still parses to the same value. For a value that nests too deep
 * to be written, the result is a JSON string that says so.
 */
export function showJson(value: unknown, indent = 0): string {
  let json: string;
  try {
    json = JSON.stringify(value, null, indent);
  } catch (error) {
    // RangeError: the value nests too deep. There is no other cause, since all values come from JSON.parse.
    if (!(error instanceof RangeError)) throw error;
    json = '"(a deeply nested value)"';
  }
  return withoutControls(json);
}

/** One line for each label and value, with aligned values. */
export function aligned(rows: readonly (readonly [label: string, value: string])[], indent = 2): string {
  const width = rows.reduce((longest, [label]) => Math.max(longest, label.length), 0);
  return rows.map(([label, value]) => `${' '.repeat(indent)}${label.padEnd(width)}  ${value}\n`).join('');
}

/** A code, and on lines of their own what is wrong and what to do. */
export function showFailure({ code, message, suggestion }: Explained): string {
  return `${printable(code)}\n  ${printable(message)}\n  ${dim('hint:')} ${printable(suggestion)}\n`;
}

/**
 * A time for people, in UTC.
 *
 * @param seconds Unix seconds
 * @example showTime(1_900_000_000); // '2030-03-17 17:46:40 UTC'
 */
export function showTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return `${seconds} (Unix seconds, beyond the calendar)`;
  return date.toISOString().replace('T', ' ').replace('.000Z', ' UTC');
}
