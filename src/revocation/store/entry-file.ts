import { constants } from 'node:fs';
import { open, readlink, realpath, rename, rm, stat, symlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Entries } from '../entries.js';
import { hasRunOut } from '../entries.js';
import type { Entry } from '../entry.js';
import type { RevocationLog, RevocationObserver } from '../observer.js';
import { lineOf, readLine } from './entry-lines.js';
import { lockFile, type FileLock } from './file-lock.js';
import { RevocationStoreError } from './store-error.js';

const CHUNK_BYTES = 1024 * 1024;
const MAX_LINE_BYTES = 64 * 1024;
const TAIL_BYTES_LOGGED = 64;
const MAX_LINKS = 40;
/** The target of the link that takes the place of a file which versions that knew only indices must not read. */
const MOVED = '.';

export interface FileDeps {
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
  /** The path of the configuration, without links. */
  readonly #path: string;
  readonly #lock: FileLock;
  readonly #entries: Entries;
  readonly #deps: FileDeps;
  /** Lines without an entry, which somebody wrote. */
  readonly #comments: string[] = [];
  #handle: FileHandle;
  /** Whether the lines are in `<path>.entries`. */
  #isMoved: boolean;
  /** The offset after the last complete, flushed line. Anything after it was never acknowledged. */
  #length = 0;
  /** Whether a write has failed, so that there may be bytes after {@link #length}. */
  #hasRemains = false;

  private constructor(
    path: string,
    isMoved: boolean,
    lock: FileLock,
    handle: FileHandle,
    entries: Entries,
    deps: FileDeps,
  ) {
    this.#path = path;
    this.#isMoved = isMoved;
    this.#lock = lock;
    this.#handle = handle;
    this.#entries = entries;
    this.#deps = deps;
  }

  /**
   * Opens the file, creates a missing one, and reads all entries.
   *
   * @param entries receives them. Later, it must have what was appended, and nothing else.
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string, entries: Entries, deps: FileDeps): Promise<EntryFile> {
    let lock: FileLock | null = null;
    let file: EntryFile | null = null;
    try {
      const { target } = await findFile(path);
      lock = await lockFile(target, deps.lockWaitMs);
      // Again: until now, another process may have moved it.
      const { file: name, isMoved } = await findFile(target);
      const handle = await open(name, constants.O_RDWR | constants.O_CREAT, 0o640);
      file = new EntryFile(target, isMoved, lock, handle, entries, deps);
      await file.#load();
      return file;
    } catch (error) {
      if (file !== null) await file.#handle.close();
      await lock?.release();
      if (error instanceof RevocationStoreError) throw error;
      throw new RevocationStoreError(
        'unreadable',
        `the revocation store ${path} cannot be opened: ${(error as Error).message}. ` +
          'Its folder must exist, and this process must be able to read and write both.',
        { cause: error },
      );
    }
  }

  /**
   * Writes entries and flushes them to disk. The caller must wait for one call before it makes the next.
   *
   * @throws an error of the file system, or an error that another program has changed the file. Then none of the
   *   entries is recorded, and the next call first cuts off any partial write.
   */
  async append(entries: readonly Entry[]): Promise<void> {
    if (this.#hasRemains) await this.#cutRemains();
    await this.#assertUnchanged();
    if (!this.#isMoved && entries.some(({ target }) => typeof target === 'string')) await this.#move();
    const lines = Buffer.from(entries.map(lineOf).join(''));
    this.#hasRemains = true;
    try {
      await writeAll(this.#handle, lines, this.#length);
      const startedAt = performance.now();
      await this.#handle.datasync();
      this.#deps.observer.storeSynced?.(performance.now() - startedAt);
    } catch (error) {
      // If this fails too, the next call tries again before it writes.
      await this.#cutRemains().catch(() => undefined);
      throw error;
    }
    this.#hasRemains = false;
    this.#length += lines.length;
  }

  /** Closes the file and releases its lock. */
  async close(): Promise<void> {
    await this.#handle.close();
    await this.#lock.release();
  }

  get #name(): string {
    return this.#isMoved ? entriesOf(this.#path) : this.#path;
  }

  async #load(): Promise<void> {
    let lineNumber = 0;
    let dropped = 0;
    const take = (text: string) => {
      lineNumber++;
      const entry = readLine(text);
      if (entry === 'unknown')
        throw new RevocationStoreError('unreadable', notUnderstood(this.#name, lineNumber));
      if (entry === null) {
        if (text.trim() !== '') this.#comments.push(text);
      } else if (hasRunOut(entry, this.#deps.now()) || !this.#entries.add(entry)) dropped++;
    };
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let tail = Buffer.alloc(0);
    for (;;) {
      const { bytesRead } = await this.#handle.read(chunk, 0, CHUNK_BYTES, this.#length);
      if (bytesRead === 0) break;
      this.#length += bytesRead;
      const read = Buffer.concat([tail, chunk.subarray(0, bytesRead)]);
      const end = read.lastIndexOf('\n') + 1;
      if (end > 0)
        read
          .toString('utf8', 0, end - 1)
          .split('\n')
          .forEach(take);
      tail = read.subarray(end);
      if (tail.length > MAX_LINE_BYTES)
        throw new RevocationStoreError('unreadable', notUnderstood(this.#name, lineNumber + 1));
    }
    if (tail.length > 0) await this.#endLastLine(tail, take);
    // Also if nothing changed: the process that created the file may have been killed before its sync.
    await this.#handle.sync();
    await syncFolder(dirname(this.#path));
    if (dropped > 0) await this.#compact(dropped);
  }

  /** Handles a last line without a line feed. */
  async #endLastLine(tail: Buffer, take: (line: string) => void): Promise<void> {
    const [path, bytes] = [this.#name, tail.length];
    const facts = { file: path, bytes, text: tail.toString('latin1', 0, TAIL_BYTES_LOGGED) };
    // Each line of the service begins with a space: `123` of ` 12345` must not be read as another index. Zeros are what a
    // power failure leaves. Any other last line was written by somebody else.
    if (tail[0] === 0x20 || tail[0] === 0) {
      this.#length -= bytes;
      await this.#handle.truncate(this.#length);
      this.#deps.log.warn(
        facts,
        `${path} ended in a line of this service without a line feed, which was never acknowledged; it is cut off`,
      );
      return;
    }
    take(tail.toString());
    await writeAll(this.#handle, Buffer.from('\n'), this.#length);
    this.#length++;
    this.#deps.log.warn(
      facts,
      `${path} ended in a line without a line feed, which this service did not write; ` +
        'the line feed is added and the line is read like any other',
    );
  }

  /** Drops lines that are repeated or no longer needed. If that fails, they stay. */
  async #compact(dropped: number): Promise<void> {
    const { log } = this.#deps;
    const facts = { file: this.#name, dropped, entries: this.#entries.size };
    try {
      await this.#rewrite(this.#name);
      await syncFolder(dirname(this.#path));
      log.info(facts, `${this.#name} was compacted: ${dropped} lines were repeated or no longer needed`);
    } catch (error) {
      log.warn({ ...facts, err: error }, `${this.#name} could not be compacted: ${(error as Error).message}`);
    }
  }

  /** Takes the file away from versions that would skip what they do not know. */
  async #move(): Promise<void> {
    const link = `${this.#path}.new`;
    await this.#rewrite(entriesOf(this.#path));
    await rm(link, { force: true });
    await symlink(MOVED, link);
    await rename(link, this.#path);
    await syncFolder(dirname(this.#path));
    this.#isMoved = true;
  }

  /** Writes all lines to a new file, which takes the place of the one of this name, and of the open one. */
  async #rewrite(path: string): Promise<void> {
    const temporary = `${path}.new`;
    const { mode } = await this.#handle.stat();
    const handle = await open(temporary, 'w+', mode & 0o777);
    let length = 0;
    try {
      let lines: string[] = this.#comments.map((line) => `${line}\n`);
      const flush = async () => {
        const bytes = Buffer.from(lines.join(''));
        lines = [];
        await writeAll(handle, bytes, length);
        length += bytes.length;
      };
      for (const entry of this.#entries.values()) if (lines.push(lineOf(entry)) > 10_000) await flush();
      await flush();
      await handle.sync();
      await rename(temporary, path);
    } catch (error) {
      await handle.close();
      await rm(temporary, { force: true });
      throw error;
    }
    const old = this.#handle;
    this.#handle = handle;
    this.#length = length;
    // Nothing will be read from it or written to it any more.
    await old.close().catch(() => undefined);
  }

  async #cutRemains(): Promise<void> {
    await this.#handle.truncate(this.#length);
    this.#hasRemains = false;
  }

  /**
   * Detects changes by other programs. If an editor replaced the file, this process would write to a file that nobody
   * reads again. If another program appended a line, this process would overwrite it.
   */
  async #assertUnchanged(): Promise<void> {
    const [opened, named] = await Promise.all([this.#handle.stat(), stat(this.#name)]);
    if (opened.ino !== named.ino || opened.dev !== named.dev || opened.size !== this.#length) {
      throw new Error(
        'the file was changed while this process had it open; restart the process to read it again, ' +
          'and stop it before editing the file next time',
      );
    }
  }
}

const entriesOf = (path: string) => `${path}.entries`;

const notUnderstood = (path: string, line: number) =>
  `${path}:${line} is not an entry that this version knows, and nothing may be skipped. Correct the line, or start the version that wrote it.`;

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;)
    done += (await handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
}

/**
 * Finds the file of a store.
 *
 * @returns the path without symbolic links, so that two names of one file share one lock, and the file with its lines
 */
export async function findFile(
  path: string,
): Promise<{ readonly target: string; readonly file: string; readonly isMoved: boolean }> {
  let at = path;
  for (let links = 0; links < MAX_LINKS; links++) {
    const folder = await realpath(dirname(at));
    const link = await readlink(at).catch(() => null);
    const target = join(folder, basename(at));
    if (link === null) return { target, file: target, isMoved: false };
    if (link === MOVED) return { target, file: entriesOf(target), isMoved: true };
    at = resolve(folder, link);
  }
  throw new Error('it is a symbolic link that leads nowhere');
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
