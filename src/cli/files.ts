import { readFile, rm, writeFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { decodeUtf8 } from '../protocol/utf8.js';
import { CommandError } from './command-error.js';

/**
 * Reads a file, or standard input where the name is `-`.
 *
 * @param what what the file should hold, for the error
 */
export async function readText(file: string, what: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = file === '-' ? await buffer(process.stdin) : await readFile(file);
  } catch (error) {
    throw new CommandError(
      `cannot read ${what} from ${file}: ${reasonOf(error)}`,
      'check the name and the permissions of the file, or write - for standard input',
    );
  }
  const text = decodeUtf8(bytes);
  if (text === null) {
    throw new CommandError(`${file} is not UTF-8 text, expected ${what}`, 'check that it is the right file');
  }
  return text;
}

/** How {@link writeResult} writes. */
export interface WriteOptions {
  /** Replace the file where it exists. */
  readonly force?: boolean | undefined;
  /** Permissions of the new file. */
  readonly mode?: number;
  /** What to say of the file on standard error. */
  readonly note?: string;
}

/** Writes a new file, or to standard output where no file (or `-`) is given. A file that exists is kept. */
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
    // Removing it first gives the new file its own permissions; writing into an old one would keep that one's.
    if (force) await rm(file, { force: true });
    await writeFile(file, text, { flag: 'wx', mode });
    process.stderr.write(`wrote ${file}${note}\n`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new CommandError(`${file} exists already`, 'choose another name, or add --force to replace it');
    }
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
