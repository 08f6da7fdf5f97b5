import { readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { applyEdits, modify } from 'jsonc-parser';
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
  const formattingOptions = formatOf(text);
  const edits = modify(text, ['roots', -1], entry, { formattingOptions, isArrayInsertion: true });
  await write(change, applyEdits(text, edits));
}

/** Takes entries out. @returns those that were taken */
export async function removeEntries(
  change: FileChange,
  isMeant: (entry: TrustedRoot) => boolean,
): Promise<TrustedRoot[]> {
  const text = change.before ?? EMPTY;
  const entries = entriesOf(text);
  const removed = entries.filter(isMeant);
  if (removed.length === 0) return [];
  const formattingOptions = formatOf(text);
  // From the last to the first, so that the numbers of the others stay right.
  const changed = entries.reduceRight(
    (before, entry, at) =>
      isMeant(entry)
        ? applyEdits(before, modify(before, ['roots', at], undefined, { formattingOptions }))
        : before,
    text,
  );
  await write(change, changed);
  return removed;
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
  const place = await realpath(process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '').catch(() => '');
  const isOneOf = place !== '' && place === path.dirname(file);
  const others = isOneOf ? (await filesOf(place)).filter((other) => other !== file) : [];
  const texts = await Promise.all(
    others.map(async (other) => ({ file: other, text: await readText(other, 'trusted roots') })),
  );
  const { faults } = await readRoots([...texts, { file, text }]);
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

function formatOf(text: string): { insertSpaces: boolean; tabSize: number; eol: string } {
  const indent = /^[ \t]+(?=["{])/m.exec(text)?.[0] ?? '  ';
  const isTab = indent.includes('\t');
  return {
    insertSpaces: !isTab,
    tabSize: isTab ? 1 : indent.length,
    eol: text.includes('\r\n') ? '\r\n' : '\n',
  };
}
