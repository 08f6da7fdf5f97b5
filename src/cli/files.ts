import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { decodeUtf8 } from '#platform';
import { CommandError } from './command-error.js';

/**
 * Reads a file, or standard input if the name is `-`.
 *
 * @param what what the file should hold, for the error
 */
export async function readText(file: string, what: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = file === '-' ? await buffer(process.stdin) : await readFile(file);
  } catch (error) {
    throw unreadable(file, what, error);
  }
  const text = decodeUtf8(bytes);
  if (text === null) {
    throw new CommandError(
      `${nameOf(file)} is not UTF-8 text, expected ${what}`,
      'check that it is the right file',
    );
  }
  return text;
}

/** How messages call a file that is read. */
export function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

/** The error for a file that cannot be read. */
export function unreadable(file: string, what: string, error: unknown): CommandError {
  return new CommandError(
    `cannot read ${what} from ${nameOf(file)}: ${reasonOf(error)}`,
    'check the name and the permissions of the file, or write - for standard input',
  );
}

/** Options of {@link writeResult}. */
export interface WriteOptions {
  /** Replace an existing file. */
  readonly force?: boolean | undefined;
  /** Permissions of the new file. */
  readonly mode?: number;
  /** A note about the file, for standard error. */
  readonly note?: string;
}

/**
 * Refuses a file that exists, unless `force` is set. Ask it before a question to a person and before anything is used up:
 * {@link writeResult} comes last.
 */
export function requireFree(file: string | undefined, { force = false }: Pick<WriteOptions, 'force'>): void {
  if (file === undefined || file === '-' || force || !existsSync(file)) return;
  throw existsAlready(file);
}

function existsAlready(file: string): CommandError {
  return new CommandError(`${file} exists already`, 'choose another name, or add --force to replace it');
}

/** Writes a new file, or to standard output if no file (or `-`) is given. Does not overwrite unless `force` is set. */
export async function writeResult(
  file: string | undefined,
  text: string,
  { force = false, mode = 0o666, note = '' }: WriteOptions = {},
): Promise<void> {
  if (file === undefined || file === '-') {
    process.stdout.write(text);
    return;
  }
  try {
    // Remove the old file first: overwriting it would keep its permissions.
    if (force) await rm(file, { force: true });
    await writeFile(file, text, { flag: 'wx', mode });
    process.stderr.write(`wrote ${file}${note}\n`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw existsAlready(file);
    throw new CommandError(
      `cannot write ${file}: ${reasonOf(error)}`,
      'choose a name in a directory you can write to',
    );
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
};

function reasonOf(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return REASONS[code] ?? message;
}
