import { printable } from '../terminal.js';

const CONTEXT = 3;

/**
 * The lines in which two texts differ, from the first to the last, with a few lines around them. Lines begin with `-`,
 * `+` or a space.
 */
export function differenceOf(before: string, after: string): string[] {
  const [old, fresh] = [before.split('\n'), after.split('\n')];
  const shorter = Math.min(old.length, fresh.length);
  let start = 0;
  while (start < shorter && old[start] === fresh[start]) start++;
  let end = 0;
  while (end < shorter - start && old.at(-1 - end) === fresh.at(-1 - end)) end++;
  const lead = old.slice(Math.max(0, start - CONTEXT), start);
  const tail = old.slice(old.length - end, old.length - end + CONTEXT);
  const marked = (mark: string, lines: readonly string[]) => lines.map((line) => `${mark} ${shown(line)}`);
  return [
    ...marked(' ', lead),
    ...marked('-', old.slice(start, old.length - end)),
    ...marked('+', fresh.slice(start, fresh.length - end)),
    ...marked(' ', tail),
  ];
}

function shown(line: string): string {
  return printable(line.replaceAll('\t', '  ').replace(/\r$/, ''));
}
