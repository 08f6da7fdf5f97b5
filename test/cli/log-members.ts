import { readFileSync } from 'node:fs';
import { shapeOf } from '../../src/cli/log-lines.js';

/** Every member that a line of a log may have, by what it is (docs/spec/log.md). */
const FILE = new URL('log-members.json', import.meta.url);
const MEMBERS = JSON.parse(readFileSync(FILE, 'utf8')) as Partial<Record<string, string>>;

export type Line = Record<string, unknown>;

/** The lines of a log. */
export const parse = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

/** What a line is, and its members that no such line has: if it is nothing, all. */
export function kindOf(line: object): readonly string[] {
  const kind = shapeOf(line as never)?.kind ?? '';
  return [kind, ...Object.keys(line).filter((name) => !MEMBERS[kind]?.split(' ').includes(name))];
}
