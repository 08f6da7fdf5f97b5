import { readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { findNodeAtLocation, parseTree, type Node } from 'jsonc-parser';
import { isJsonObject, type JsonValue } from '../protocol/json.js';
import type { TrustedRoot } from '../trust/read-root.js';
import { readRoots, showFaults } from '../trust/read-roots.js';
import { filesOf } from '../trust/roots-files.js';
import { readTrustedRoots, TrustedRootsError } from '../trust/trusted-roots.js';
import { CommandError, EXIT } from './command-error.js';
import { readText, writeResult } from './files.js';
import { replaceFile } from './init/host-file.js';

const EMPTY = '{\n  "roots": []\n}\n';

/**
 * The file or the directory that a command is about.
 *
 * @param named by the option `--file`
 * @throws CommandError if nothing names one
 */
export function placeOf(named: string | undefined): string {
  const place = named ?? process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '';
  if (place !== '') return place;
  throw new CommandError(
    'there is no file of trusted roots',
    'name it with --file, or set TRUSTED_ROOTS_FILE as the service has it',
  );
}

/** The entries of a file, or of a directory, which are in order. @throws CommandError with all faults */
export async function readEntries(place: string): Promise<{ file: string; entry: TrustedRoot }[]> {
  try {
    await readTrustedRoots(place);
  } catch (error) {
    throw toCheckError(error);
  }
  const entries: { file: string; entry: TrustedRoot }[] = [];
  for (const file of await filesOf(place))
    for (const entry of entriesOf(await readText(file, 'trusted roots'))) entries.push({ file, entry });
  return entries;
}

/** A change of a file of roots. */
export interface FileChange {
  /** Without symbolic links. */
  readonly file: string;
  /** `null` if there is no file yet. */
  readonly before: string | null;
}

/**
 * Opens a file to change it.
 *
 * @param place a file, which may be missing, and not a directory
 */
export async function openRootsFile(place: string): Promise<FileChange> {
  const file = await realpath(place).catch(() => place);
  const stats = await stat(file).catch(() => null);
  if (stats === null) return { file, before: null };
  if (stats.isDirectory())
    throw new CommandError(`${place} is a directory`, 'name a file in it with --file, such as one of a team');
  const text = await readText(file, 'trusted roots');
  await requireOrder(file, text, 'mend the file first');
  return { file, before: text };
}

/** Puts an entry behind the others. The rest of the file stays as it is, byte for byte. */
export async function addEntry(change: FileChange, entry: TrustedRoot): Promise<void> {
  const text = change.before ?? EMPTY;
  const list = listIn(text);
  const last = list.children?.at(-1);
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const outer = indentOf(text, list.offset);
  const unit = outer === '' ? '  ' : outer;
  const indent = last === undefined ? outer + unit : indentOf(text, last.offset);
  const added = JSON.stringify(entry, null, unit).replaceAll('\n', eol + indent);
  const [at, end] = last === undefined ? [list.offset, endOf(list)] : [endOf(last), endOf(last)];
  const inserted =
    last === undefined ? `[${eol}${indent}${added}${eol}${outer}]` : `,${eol}${indent}${added}`;
  await write(change, text.slice(0, at) + inserted + text.slice(end));
}

/**
 * Takes entries out. The rest of the file stays as it is.
 *
 * @returns those that were taken
 */
export async function removeEntries(
  change: FileChange,
  isMeant: (entry: TrustedRoot) => boolean,
): Promise<TrustedRoot[]> {
  const text = change.before ?? EMPTY;
  const nodes = listIn(text).children ?? [];
  const entries = entriesOf(text);
  const removed = entries.filter(isMeant);
  const [first, last] = [nodes[0], nodes.at(-1)];
  if (removed.length === 0 || first === undefined || last === undefined) return [];
  let changed = text.slice(0, first.offset);
  let isFirst = true;
  for (const [at, node] of nodes.entries()) {
    if (isMeant(entries[at] as TrustedRoot)) continue;
    const before = nodes[at - 1];
    // With what stands between it and the one before it.
    changed += text.slice(isFirst || before === undefined ? node.offset : endOf(before), endOf(node));
    isFirst = false;
  }
  await write(change, changed + text.slice(endOf(last)));
  return removed;
}

/** The array of entries in a text that is in order. */
function listIn(text: string): Node {
  return findNodeAtLocation(parseTree(text) as Node, ['roots']) as Node;
}

function endOf({ offset, length }: Node): number {
  return offset + length;
}

/** The white space with which the line of an offset begins. */
function indentOf(text: string, offset: number): string {
  return /^[ \t]*/.exec(text.slice(text.lastIndexOf('\n', offset) + 1, offset))?.[0] ?? '';
}

async function write({ file, before }: FileChange, text: string): Promise<void> {
  await requireOrder(file, text, 'correct the options; nothing was changed');
  if (before === null) return writeResult(file, text);
  if ((await readFile(file, 'utf8').catch(() => '')) !== before)
    throw new CommandError(`${file} was changed meanwhile`, 'nothing was changed by this command; try again');
  await replaceFile(file, text);
}

/** Requires that a file would be in order, and with it the directory of TRUSTED_ROOTS_FILE, if it is in there. */
async function requireOrder(file: string, text: string, hint: string): Promise<void> {
  const place = process.env['TRUSTED_ROOTS_FILE']?.trim() || null;
  const real = place === null ? null : await realpath(place).catch(() => null);
  const folder = await realpath(path.dirname(file)).catch(() => '');
  // It may have no file yet.
  const files = real === folder ? await filesOf(folder).catch(() => []) : [];
  const others = files.filter((other) => other !== file);
  const texts = await Promise.all(
    others.map(async (other) => ({ file: other, text: await readText(other, 'trusted roots') })),
  );
  const { faults } = await readRoots(
    [...texts, { file, text }].map((one) => ({ file: one.file, bytes: Buffer.from(one.text) })),
  );
  if (faults !== undefined) throw new CommandError(showFaults(faults).join('; '), hint, EXIT.no);
}

/** What is wrong with the files, for a person. */
export function toCheckError(error: unknown): CommandError {
  if (!(error instanceof Error)) throw error;
  const lines = error.message.split('\n');
  return new CommandError(
    lines.join('; '),
    'correct what the message names; docs/trust.md has an example',
    error instanceof TrustedRootsError ? EXIT.no : EXIT.failed,
  );
}

/** The entries of a text that is in order. */
function entriesOf(text: string): TrustedRoot[] {
  const value = JSON.parse(text) as JsonValue;
  return (isJsonObject(value) ? value['roots'] : []) as unknown as TrustedRoot[];
}
