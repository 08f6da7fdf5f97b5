import { open, readlink, realpath, rename, rm, stat, symlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Entries } from '../entries.js';
import { hasRunOut, type Entry } from '../entry.js';
import type { RevocationLog, RevocationObserver } from '../observer.js';
import { lineOf } from './entry-lines.js';
import { lockFile, type FileLock } from './file-lock.js';
import { readLines } from './read-lines.js';
import { RevocationStoreError } from './store-error.js';

const TAIL_BYTES_LOGGED = 64;
const LINES_AT_A_TIME = 1000;
/** The target of the link that takes the place of a file which versions that knew only indices must not read. */
const MOVED = '.';

export interface FileDeps {
  /** Receives what the file has. Later, it must have what was appended, and nothing else. */
  readonly entries: Entries;
  readonly log: RevocationLog;
  readonly observer: RevocationObserver;
  readonly now: () => number;
  /** How long to wait for a process that may be just ending. */
  readonly lockWaitMs: number;
}

/**
 * The file of local revocations. An entry is recorded when its line, including the line feed, is on disk. Only one
 * process at a time may have the file open. Other people may edit it while no process has it open.
 *
 * @see docs/spec/revocation.md
 */
export class EntryFile {
  readonly #lock: FileLock;
  readonly #deps: FileDeps;
  /** See {@link findFile}. */
  #found: FoundFile;
  #handle: FileHandle;
  /** Lines without an entry, which somebody wrote. */
  #comments = '';
  /** The offset after the last complete, flushed line. Anything after it was never acknowledged. */
  #length = 0;
  /** Whether a write has failed, so that there may be bytes after {@link #length}. */
  #hasRemains = false;

  private constructor(lock: FileLock, found: FoundFile, handle: FileHandle, deps: FileDeps) {
    this.#lock = lock;
    this.#found = found;
    this.#handle = handle;
    this.#deps = deps;
  }

  /**
   * Opens the file, creates a missing one, and reads all entries.
   *
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string, deps: FileDeps): Promise<EntryFile> {
    let lock: FileLock | undefined;
    let file: EntryFile | undefined;
    try {
      const { target } = await findFile(path);
      lock = await lockFile(target, deps.lockWaitMs);
      // Again: until now, another process may have moved it.
      const found = await findFile(target);
      file = new EntryFile(lock, found, await open(found.file, 'a+', 0o640), deps);
      await file.#load();
      return file;
    } catch (error) {
      await (file?.close() ?? lock?.release());
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
    const { target, file } = this.#found;
    try {
      if (this.#hasRemains) await this.#cutRemains();
      await this.#assertUnchanged();
      if (file === target && entries.some((entry) => typeof entry.target === 'string')) await this.#move();
      this.#hasRemains = true;
      const lines = Buffer.from(textOf(entries));
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
    await this.#lock.release();
  }

  async #load(): Promise<void> {
    const { file } = this.#found;
    const { entries, log, now } = this.#deps;
    let dropped = 0;
    const { length, tail, takeLine } = await readLines(this.#handle, file, (entry, line) => {
      if (entry === null) this.#comments += line.trim() === '' ? '' : `${line}\n`;
      else if (hasRunOut(entry, now()) || !entries.add(entry)) dropped++;
    });
    this.#length = length;
    if (tail.length > 0) await this.#endLastLine(tail, takeLine);
    // Also if nothing changed: the process that created the file may have been killed before its sync.
    await this.#handle.sync();
    await syncFolder(file);
    if (dropped === 0) return;
    const facts = { file, dropped, entries: entries.size };
    try {
      await this.#rewrite(file);
      log.info(facts, `${file} was compacted: ${dropped} lines were repeated or no longer needed`);
    } catch (error) {
      log.warn({ ...facts, err: error }, `${file} could not be compacted: ${(error as Error).message}`);
    }
  }

  /** Handles a last line without a line feed. */
  async #endLastLine(tail: Buffer, takeLine: (line: string) => void): Promise<void> {
    // Each line of the service begins with a space: `123` of ` 12345` must not be read as another index. Zeros are what a
    // power failure leaves. Any other last line was written by somebody else.
    const isOurs = tail[0] === 0x20 || tail[0] === 0;
    if (isOurs) await this.#cutRemains();
    else {
      takeLine(tail.toString());
      await this.#handle.appendFile('\n');
      this.#length += tail.length + 1;
    }
    const { file } = this.#found;
    const found = isOurs
      ? 'a line of this service without a line feed, which was never acknowledged; it is cut off'
      : 'a line without a line feed, which this service did not write; the line feed is added and the line is read like any other';
    const text = tail.toString('latin1', 0, TAIL_BYTES_LOGGED);
    this.#deps.log.warn({ file, bytes: tail.length, text }, `${file} ended in ${found}`);
  }

  /** Takes the file away from versions that would skip what they do not know. */
  async #move(): Promise<void> {
    const { target } = this.#found;
    const [file, link] = [entriesOf(target), `${target}.new`];
    await this.#rewrite(file);
    await rm(link, { force: true });
    await symlink(MOVED, link);
    await rename(link, target);
    await syncFolder(target);
    this.#found = { target, file };
  }

  /** Writes all lines to a new file, which takes the place of the one of this name, and of the open one. */
  async #rewrite(path: string): Promise<void> {
    const temporary = `${path}.new`;
    const { mode } = await this.#handle.stat();
    await rm(temporary, { force: true });
    let other = await open(temporary, 'ax+', mode & 0o777);
    try {
      const entries = [...this.#deps.entries.values()];
      await other.appendFile(this.#comments);
      for (let at = 0; at < entries.length; at += LINES_AT_A_TIME)
        await other.appendFile(textOf(entries.slice(at, at + LINES_AT_A_TIME)));
      await other.sync();
      const { size } = await other.stat();
      await rename(temporary, path);
      this.#length = size;
      [this.#handle, other] = [other, this.#handle];
    } finally {
      // The old file, or a new one that is not whole: nothing will be read from it or written to it any more.
      await other.close().catch(() => undefined);
      await rm(temporary, { force: true });
    }
    await syncFolder(path);
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
    const [opened, named] = await Promise.all([this.#handle.stat(), stat(this.#found.file)]);
    if (opened.ino !== named.ino || opened.dev !== named.dev || opened.size !== this.#length)
      throw new Error(
        'the file was changed while this process had it open; restart the process to read it again, ' +
          'and stop it before editing the file next time',
      );
  }
}

interface FoundFile {
  /** The path of the configuration without symbolic links, so that two names of one file share one lock. */
  readonly target: string;
  /** The file with the lines: the same, or `<path>.entries` once they have moved. */
  readonly file: string;
}

/** Finds the file of a store. */
export async function findFile(path: string, links = 0): Promise<FoundFile> {
  if (links > 40) throw new Error('it is a symbolic link that leads nowhere');
  const folder = await realpath(dirname(path));
  const target = join(folder, basename(path));
  const link = await readlink(target).catch(() => null);
  if (link !== null && link !== MOVED) return findFile(resolve(folder, link), links + 1);
  return { target, file: link === null ? target : entriesOf(target) };
}

const entriesOf = (path: string) => `${path}.entries`;
const textOf = (entries: readonly Entry[]) => entries.map(lineOf).join('');

/** Flushes the folder of a file, so that the file's name is on the disk. */
async function syncFolder(file: string): Promise<void> {
  const folder = await open(dirname(file));
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
