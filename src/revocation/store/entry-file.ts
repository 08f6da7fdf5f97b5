import { open, realpath, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Entries } from '../entries.js';
import { hasRunOut, readEntry, toJson, type Entry } from '../entry.js';
import type { Deps } from '../observer.js';
import { lockFile } from './file-lock.js';
import { RevocationStoreError } from './revocation-store.js';

const TAIL_BYTES_LOGGED = 64;
const CHUNK_BYTES = 1024 * 1024;
const MAX_LINE_LENGTH = 64 * 1024;

/**
 * The file of local revocations: a JSON object a line, appended and never rewritten. An entry is recorded when its line,
 * including the line feed, is on disk. Only one process at a time may have the file open. Other people may edit it while
 * no process has it open.
 *
 * @see docs/spec/revocation.md
 */
export class EntryFile {
  readonly #deps: Deps;
  /** Without symbolic links, so that two names of one file share one lock. */
  readonly #path: string;
  readonly #lock: FileHandle;
  readonly #handle: FileHandle;
  /** The offset after the last complete, flushed line. Anything after it was never acknowledged. */
  #length = 0;
  /** Whether a write has failed, so that there may be bytes after {@link #length}. */
  #hasRemains = false;

  private constructor(path: string, handle: FileHandle, lock: FileHandle, deps: Deps) {
    this.#path = path;
    this.#handle = handle;
    this.#lock = lock;
    this.#deps = deps;
  }

  /**
   * Opens the file, creates a missing one, and reads all entries.
   *
   * @param entries receives what the file has
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string, entries: Entries, deps: Deps, lockWaitMs: number): Promise<EntryFile> {
    let handle: FileHandle | undefined;
    let lock: FileHandle | undefined;
    try {
      handle = await open(path, 'a+', 0o640);
      const target = await realpath(path);
      lock = await lockFile(target, lockWaitMs);
      const file = new EntryFile(target, handle, lock, deps);
      await file.#load(entries);
      return file;
    } catch (error) {
      await handle?.close();
      await lock?.close();
      if (error instanceof RevocationStoreError) throw error;
      throw new RevocationStoreError(
        'unreadable',
        `the revocation store ${path} cannot be opened: ${(error as Error).message}. ` +
          'Its folder must exist, on a file system with locks, and this process must be able to read and write both.',
        { cause: error },
      );
    }
  }

  /**
   * Writes entries and flushes them to disk. The caller must wait for one call before it makes the next.
   *
   * @throws {@link RevocationStoreError} `not_recorded` if the file system fails, or another program has changed the
   *   file. Then none of the entries is recorded, and the next call first cuts off any partial write.
   */
  async append(entries: readonly Entry[]): Promise<void> {
    const file = this.#path;
    try {
      if (this.#hasRemains) await this.#cutRemains();
      await this.#assertUnchanged();
      this.#hasRemains = true;
      const lines = Buffer.from(entries.map(lineOf).join(''));
      await this.#handle.appendFile(lines);
      const startedAt = performance.now();
      await this.#handle.datasync();
      this.#deps.observer.storeSynced?.(performance.now() - startedAt);
      this.#hasRemains = false;
      this.#length += lines.length;
    } catch (error) {
      // If this fails too, the next call tries again before it writes.
      if (this.#hasRemains) await this.#cutRemains().catch(() => undefined);
      const message = `the revocation store ${file} could not record: ${(error as Error).message}`;
      this.#deps.log.error({ err: error, file, count: entries.length }, message);
      throw new RevocationStoreError('not_recorded', message, { cause: error });
    }
  }

  /** Closes the file and releases its lock. */
  async close(): Promise<void> {
    await this.#handle.close();
    await this.#lock.close();
  }

  async #load(entries: Entries): Promise<void> {
    const take = (entry: Entry) => {
      if (!hasRunOut(entry, this.#deps.now())) entries.add(entry);
    };
    const { length, tail } = await readLines(this.#handle, this.#path, take);
    this.#length = length;
    if (tail.length > 0) await this.#endLastLine(tail, take);
    // Also if nothing changed: the process that created the file may have been killed before its sync.
    await this.#handle.sync();
    await syncFolder(this.#path);
    await this.#assertUnchanged();
  }

  /**
   * Handles a last line without a line feed. No part of a JSON object is one, so the beginning of an entry is never
   * taken for another entry. A whole one lacks only its line feed: whoever wrote it wanted it recorded.
   */
  async #endLastLine(tail: Buffer, take: (entry: Entry) => void): Promise<void> {
    const entry = readEntry(tail.toString());
    const isCut = typeof entry === 'string';
    if (isCut) await this.#cutRemains();
    else {
      take(entry);
      await this.#handle.appendFile('\n');
      this.#length += tail.length + 1;
    }
    const found = isCut ? 'no entry, and is cut off: nobody was told that it is recorded' : 'an entry';
    const text = tail.toString('latin1', 0, TAIL_BYTES_LOGGED);
    const message = `the last line of ${this.#path} has no line feed; it is ${found}`;
    this.#deps.log.warn({ file: this.#path, bytes: tail.length, text }, message);
  }

  async #cutRemains(): Promise<void> {
    await this.#handle.truncate(this.#length);
    this.#hasRemains = false;
  }

  /**
   * Detects changes by other programs. If an editor replaced the file, this process would write to a file that nobody
   * reads again. If another program appended a line, this process might write behind half of one.
   */
  async #assertUnchanged(): Promise<void> {
    const [opened, named] = await Promise.all([this.#handle.stat(), stat(this.#path)]);
    if (opened.ino !== named.ino || opened.dev !== named.dev || opened.size !== this.#length)
      throw new Error(
        'the file was changed while this process had it open; restart the process to read it again, ' +
          'and stop it before editing the file next time',
      );
  }
}

/** @example lineOf(entry); // '{"status_list_index":7,"at":"2026-11-25T03:12:00.000Z","reason":"laptop stolen"}\n' */
export function lineOf(entry: Entry): string {
  return `${toJson(entry)}\n`;
}

/**
 * Reads a file of entries, a part of it at a time.
 *
 * @param path for messages
 * @returns the number of bytes of all lines, and what is behind the last line feed
 * @throws {@link RevocationStoreError} `unreadable` if a line is no entry
 */
export async function readLines(
  handle: FileHandle,
  path: string,
  take: (entry: Entry) => void,
): Promise<{ readonly length: number; readonly tail: Buffer }> {
  let lineNumber = 0;
  const takeLine = (line: string) => {
    lineNumber++;
    const entry = line.length > MAX_LINE_LENGTH ? 'it is too long' : readEntry(line);
    if (typeof entry !== 'string') take(entry);
    else
      throw new RevocationStoreError(
        'unreadable',
        `${path}:${lineNumber} is no entry: ${entry}. Nothing may be skipped: correct the line, or delete it.`,
      );
  };
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let length = 0;
  for (let tail = Buffer.alloc(0); ;) {
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, length + tail.length);
    if (bytesRead === 0) return { length, tail };
    const read = Buffer.concat([tail, chunk.subarray(0, bytesRead)]);
    const end = read.lastIndexOf('\n') + 1;
    if (end > 0) for (const line of read.toString('utf8', 0, end - 1).split('\n')) takeLine(line);
    length += end;
    tail = read.subarray(end);
    if (tail.length > 4 * MAX_LINE_LENGTH) takeLine(tail.toString('latin1'));
  }
}

/** Flushes the folder of a file, so that the file's name is on the disk. */
async function syncFolder(file: string): Promise<void> {
  const folder = await open(dirname(file));
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
