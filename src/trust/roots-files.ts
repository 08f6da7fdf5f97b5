import { open, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { BytesOfFile } from './read-roots.js';

/** Maximum number of bytes in all files together. */
const MAX_ROOTS_BYTES = 64 * 1024 * 1024;
const MAX_FILES = 1000;

/** One state of a file, or of the files of a directory. */
export interface Version {
  readonly files: readonly string[];
  /** Differs from that of any other state, unless files were written again within the resolution of the clock. */
  readonly mark: string;
  /** When the last file was changed, in milliseconds since 1970. */
  readonly changedAt: number;
}

/** The files cannot be used, for a reason that their texts do not show. */
class RootsFilesError extends Error {
  override readonly name = 'RootsFilesError';
}

/**
 * Looks at a file, or at those of a directory, without reading them. Follows symbolic links.
 *
 * @throws RootsFilesError if there is none, or too much
 */
export async function lookAt(place: string): Promise<Version> {
  const files = await filesOf(place);
  const marks: string[] = [];
  let changedAt = 0;
  let bytes = 0;
  for (const file of files) {
    const stats = await orError(file, stat(file, { bigint: true }));
    const { dev, ino, size, mtimeNs, ctimeNs } = stats;
    if (!stats.isFile()) throw new RootsFilesError(`${file}: it is not a file`);
    bytes += Number(size);
    changedAt = Math.max(changedAt, Number(mtimeNs / 1_000_000n), Number(ctimeNs / 1_000_000n));
    marks.push([file, dev, ino, size, mtimeNs, ctimeNs].join('\0'));
  }
  if (bytes > MAX_ROOTS_BYTES)
    throw new RootsFilesError(`${place}: it has ${bytes} bytes, expected at most ${MAX_ROOTS_BYTES}`);
  return { files, mark: marks.join('\n'), changedAt };
}

/**
 * The file itself, or the files of a directory in the order of their names.
 *
 * @throws RootsFilesError if there is none, or if there are too many
 */
export async function filesOf(place: string): Promise<string[]> {
  const stats = await orError(place, stat(place));
  if (!stats.isDirectory()) return [place];
  const names = (await orError(place, readdir(place)))
    .filter((name) => name.endsWith('.json') && !name.startsWith('.'))
    .sort();
  if (names.length === 0) throw new RootsFilesError(`${place}: there is no *.json in this directory`);
  if (names.length > MAX_FILES)
    throw new RootsFilesError(`${place}: there are ${names.length} files, expected at most ${MAX_FILES}`);
  return names.map((name) => path.join(place, name));
}

/** Reads files that {@link lookAt} found. @throws RootsFilesError if one cannot be read */
export async function readBytes({ files }: Version): Promise<BytesOfFile[]> {
  const read: BytesOfFile[] = [];
  let left = MAX_ROOTS_BYTES;
  for (const file of files) {
    const bytes = await orError(file, readAtMost(file, left));
    // It has grown since it was looked at.
    if (bytes === null) throw new RootsFilesError(`${file}: it is larger than ${MAX_ROOTS_BYTES} bytes`);
    left -= bytes.length;
    read.push({ file, bytes });
  }
  return read;
}

async function readAtMost(file: string, limit: number): Promise<Buffer | null> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    if (size > limit) return null;
    // Without zeros, which would take 20 ms for the largest.
    const bytes = Buffer.allocUnsafe(size);
    let length = 0;
    while (length < size) {
      const { bytesRead } = await handle.read(bytes, length, size - length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  } finally {
    await handle.close();
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not read it',
  ELOOP: 'its symbolic links lead in a circle',
};

async function orError<T>(file: string, attempt: Promise<T>): Promise<T> {
  try {
    return await attempt;
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw new RootsFilesError(`${file}: ${REASONS[code] ?? message}`, { cause: error });
  }
}
