import picocolors from 'picocolors';

/** Colours for a stream: only on a terminal, and not where `NO_COLOR` is set. https://no-color.org */
export function coloursFor(stream: { readonly isTTY?: boolean }) {
  const { NO_COLOR, TERM } = process.env;
  // Not undefined: picocolors would then decide by itself, and colour a pipe where CI or FORCE_COLOR is set.
  return picocolors.createColors(stream.isTTY === true && (NO_COLOR ?? '') === '' && TERM !== 'dumb');
}

// Controls, format characters (which can reverse or hide text), lone surrogates, line and paragraph separators.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Text from a file or the network, on one line, that cannot steer the terminal it is printed on.
 *
 * @example printable('a\u001b[2J'); // 'a\\u{1b}[2J'
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/**
 * A value as JSON that cannot steer a terminal; it still parses to the same value. Of a value that nests deeper than
 * can be written only that is said, as a JSON string.
 */
export function printableJson(value: unknown, indent = 0): string {
  let json: string;
  try {
    json = JSON.stringify(value, null, indent);
  } catch (error) {
    // Not a value that JSON cannot say: all of them come from JSON.parse.
    if (!(error instanceof RangeError)) throw error;
    json = '"(a deeply nested value)"';
  }
  return json.replace(UNPRINTABLE, (character) => (character === '\n' ? character : toEscapes(character)));
}

function toEscapes(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('');
}

/** Lines of a label and a value each, the values aligned. */
export function aligned(rows: readonly (readonly [label: string, value: string])[], indent = 2): string {
  const width = rows.reduce((longest, [label]) => Math.max(longest, label.length), 0);
  return rows.map(([label, value]) => `${' '.repeat(indent)}${label.padEnd(width)}  ${value}\n`).join('');
}
