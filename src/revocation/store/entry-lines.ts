import { factsOf, indexEntry, readEntry, toJson, type Entry } from '../entry.js';

// An index, white space around it, and a comment.
const INDEX_LINE = /^[ \t\r]*(\d+)[ \t\r]*(?:#(.*))?$/s;

/**
 * The line of an entry. It begins with a space, and earlier versions can read that of an index.
 *
 * @example lineOf(entry); // ' 7 # {"at":"2026-11-25T03:12:00.000Z","reason":"laptop stolen"}\n'
 */
export function lineOf(entry: Entry): string {
  if (typeof entry.target === 'string') return ` ${toJson(entry)}\n`;
  const facts = JSON.stringify(factsOf(entry));
  return ` ${entry.target}${facts === '{}' ? '' : ` # ${facts}`}\n`;
}

/**
 * Reads a line.
 *
 * @param text without its line feed
 * @returns `null` if it is blank or a comment
 */
export function readLine(text: string): Entry | 'unknown' | null {
  const [, digits, comment] = INDEX_LINE.exec(text) ?? [];
  if (digits !== undefined) {
    const index = Number(digits);
    return Number.isSafeInteger(index) ? indexEntry(index, comment) : 'unknown';
  }
  if (/^[ \t\r]*(?:#|$)/.test(text)) return null;
  const entry = readEntry(text);
  return typeof entry === 'string' ? 'unknown' : entry;
}
