import { randomUUID } from 'node:crypto';
import { open, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { lockFile, type FileLock } from '../revocation/store/file-lock.js';
import { RevocationStoreError } from '../revocation/store/revocation-store.js';
import { CommandError } from './command-error.js';

const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** How long to wait for another command that takes an index from the same file. */
const MAX_WAIT_MS = 15_000;

/**
 * Takes the first index out of a file of free ones: a line for each, `8`, or for several, `8-131071`. The file is replaced
 * before the index is used, so that no two commands ever get the same one, not even after a crash; an index whose receipt
 * is then not issued is lost.
 *
 * @throws CommandError if the file cannot be read or written, is not such a list, or has none left
 */
export async function takeStatusIndex(file: string): Promise<number> {
  try {
    // The lock is that of the file itself, whatever name leads there.
    const path = await realpath(file);
    const lock = await lockPatiently(path);
    try {
      return await takeFirst(path, file);
    } finally {
      await lock.release();
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(
      `cannot take a status list index from ${file}: ${(error as Error).message}`,
      'name a file of free indices that you can write, a line each: 8, or 8-131071 for many',
    );
  }
}

async function takeFirst(path: string, file: string): Promise<number> {
  const { size, mode } = await stat(path);
  if (size > MAX_FILE_BYTES) throw new Error(`it has ${size} bytes, expected at most ${MAX_FILE_BYTES}`);
  const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line.trim() !== '');
  const [line, ...rest] = lines;
  if (line === undefined) {
    throw new CommandError(
      `${file} has no free status list index left`,
      'add those of a new status list, and have it served',
    );
  }
  const { first, last } = readLine(line);
  const left = first === last ? rest : [`${first + 1}${first + 1 === last ? '' : `-${last}`}`, ...rest];
  await replaceFile(path, left.map((each) => `${each}\n`).join(''), mode);
  return first;
}

function readLine(line: string): { readonly first: number; readonly last: number } {
  const [, start = '', end = start] = /^\s*(\d{1,16})(?:-(\d{1,16}))?\s*$/.exec(line) ?? [];
  const [first, last] = [Number(start), Number(end)];
  if (start !== '' && Number.isSafeInteger(first) && Number.isSafeInteger(last) && first <= last)
    return { first, last };
  throw new Error(`its first line is ${JSON.stringify(line.slice(0, 60))}, expected an index or a range`);
}

/** Replaces a file so that even after a power failure it is either the old one or the new one. */
async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  // A name that no killed command has left behind.
  const temporary = `${path}.${randomUUID()}.new`;
  const handle = await open(temporary, 'wx', mode);
  try {
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function lockPatiently(path: string): Promise<FileLock> {
  try {
    return await lockFile(path, MAX_WAIT_MS);
  } catch (error) {
    if (!(error instanceof RevocationStoreError)) throw error;
    const message = `another command holds ${path}.lock for ${MAX_WAIT_MS / 1000} s already`;
    throw new Error(message, { cause: error });
  }
}
