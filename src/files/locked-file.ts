import { open, realpath, rename, rm, stat, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { lockFile, takeLock, unlock, type FileKind } from './file-lock.js';

const TAIL_BYTES_LOGGED = 64;
const CHUNK_BYTES = 1024 * 1024;
const MAX_LINE_LENGTH = 64 * 1024;

export interface FileDeps {
  readonly log: Record<'warn' | 'error', (facts: object, message: string) => void>;
  /** How long to wait for a process that has it locked, in milliseconds. */
  readonly lockWaitMs: number;
  /** Takes the entry of a line. @returns what is wrong with the line */
  readonly take: (line: string) => string | null;
  /** The file was flushed to disk; the duration in milliseconds. */
  readonly synced?: ((durationMs: number) => void) | undefined;
}

/**
 * A file of entries. One is recorded when its line, with the line feed, is on disk. Only the process that has it locked may write it;
 * several can take turns ({@link release}, {@link hold}). People may edit it while no process has it open.
 */
export class LockedFile {
  readonly #kind: FileKind;
  readonly #deps: FileDeps;
  /** Without symbolic links, so that two names of one file share one lock. */
  readonly #path: string;
  readonly #lock: FileHandle;
  #handle: FileHandle;
  /** The offset after the last complete, flushed line. Anything after it this process has not acknowledged. */
  #length = 0;
  /** Whether a write has failed, so that there may be bytes after {@link #length}. */
  #hasRemains = false;

  private constructor(path: string, handle: FileHandle, lock: FileHandle, kind: FileKind, deps: FileDeps) {
    this.#path = path;
    this.#handle = handle;
    this.#lock = lock;
    this.#kind = kind;
    this.#deps = deps;
  }

  /**
   * Opens the file, creates a missing one, locks it, and reads all entries.
   *
   * @throws the failure of its kind, `locked` or `unreadable`
   */
  static async open(path: string, kind: FileKind, deps: FileDeps): Promise<LockedFile> {
    let handle: FileHandle | undefined;
    let lock: FileHandle | undefined;
    try {
      await (await open(path, 'a+', kind.mode)).close();
      const target = await realpath(path);
      lock = await lockFile(target, kind, deps.lockWaitMs);
      // Opened under the lock: the last owner may have put another file in its place.
      handle = await open(target, 'a+', kind.mode);
      const file = new LockedFile(target, handle, lock, kind, deps);
      await file.#load();
      return file;
    } catch (error) {
      await handle?.close();
      await lock?.close();
      if (error instanceof kind.Failure) throw error;
      throw new kind.Failure(
        'unreadable',
        `${kind.name} ${path} cannot be opened: ${(error as Error).message}. ` +
          'Its folder must exist, on a file system with locks, and this process must be able to read and write both.',
        { cause: error },
      );
    }
  }

  /** Lets other processes have the file until {@link hold}. */
  release(): void {
    unlock(this.#lock);
  }

  /**
   * Locks the file again, and reads what others have written meanwhile.
   *
   * @throws the failure of its kind; then the file is not locked
   */
  async hold(): Promise<void> {
    let holder: string | null = null;
    try {
      holder = await takeLock(this.#lock, this.#deps.lockWaitMs);
      if (holder === null) {
        const size = await this.#sizeIfInPlace();
        if (size === null) {
          const next = await open(this.#path, 'a+', this.#kind.mode);
          await this.#handle.close();
          this.#handle = next;
          this.#length = 0;
        }
        if (size !== this.#length) await this.#load();
        return;
      }
    } catch (error) {
      this.release();
      throw this.#notRecorded(error, 0);
    }
    this.#deps.log.error({ file: this.#path, holder }, `${this.#path} is held by ${holder}`);
    throw new this.#kind.Failure('locked', `its file is held by ${holder}: let it go on, or end it`);
  }

  /**
   * Writes lines and flushes them to disk. The caller must wait for one call before it makes the next.
   *
   * @throws the failure of its kind, `not_recorded`, if the file system fails, or another program has changed the file. Then
   *   none of the lines is recorded, and the next call first cuts off any partial write.
   */
  async append(lines: readonly string[]): Promise<void> {
    try {
      if (this.#hasRemains) await this.#cutRemains();
      await this.#assertUnchanged();
      this.#hasRemains = true;
      const bytes = Buffer.from(lines.join(''));
      await this.#handle.appendFile(bytes);
      const startedAt = performance.now();
      await this.#handle.datasync();
      this.#deps.synced?.(performance.now() - startedAt);
      this.#hasRemains = false;
      this.#length += bytes.length;
    } catch (error) {
      // If this fails too, the next call tries again before it writes.
      if (this.#hasRemains) await this.#cutRemains().catch(() => undefined);
      throw this.#notRecorded(error, lines.length);
    }
  }

  /**
   * Puts a new file with these texts, of whole lines, in the place of this one: after a crash there is the old one or the new one.
   *
   * @throws the failure of its kind, `not_recorded`. Then call it again before {@link append}: nobody knows which one is there
   */
  async replace(texts: Iterable<string>): Promise<void> {
    const path = `${this.#path}.new`;
    let next: FileHandle | null = null;
    try {
      await this.#assertUnchanged();
      // A process that was killed may have left it.
      await rm(path, { force: true });
      next = await open(path, 'ax+', this.#kind.mode);
      await writeFile(next, texts);
      await next.sync();
      await rename(path, this.#path);
      const old = this.#handle;
      this.#handle = next;
      next = old;
      this.#hasRemains = false;
      this.#length = (await this.#handle.stat()).size;
      await syncFolder(this.#path);
    } catch (error) {
      await rm(path, { force: true }).catch(() => undefined);
      throw this.#notRecorded(error, 0);
    } finally {
      await next?.close();
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
    await this.#lock.close();
  }

  #notRecorded(error: unknown, count: number): Error {
    const { name, Failure } = this.#kind;
    const message = `${name} ${this.#path} could not record: ${(error as Error).message}`;
    this.#deps.log.error({ err: error, file: this.#path, count }, message);
    return new Failure('not_recorded', message, { cause: error });
  }

  /** The size of the file; `null` if another one is in its place. */
  async #sizeIfInPlace(): Promise<number | null> {
    const [opened, named] = await Promise.all([this.#handle.stat(), stat(this.#path)]);
    return opened.ino === named.ino && opened.dev === named.dev ? opened.size : null;
  }

  /** Reads what is behind the last line that was read. */
  async #load(): Promise<void> {
    const isNew = this.#length === 0;
    const { take } = this.#deps;
    const { length, tail } = await readLines(this.#handle, this.#path, this.#kind, take, this.#length);
    this.#length = length;
    this.#hasRemains = false;
    if (tail.length > 0) {
      // No part of a JSON object or array is one, so the beginning of an entry is never taken for another entry. A whole one
      // lacks only its line feed: whoever wrote it wanted it recorded.
      const isCut = take(tail.toString()) !== null;
      if (isCut) await this.#cutRemains();
      else {
        await this.#handle.appendFile('\n');
        this.#length += tail.length + 1;
      }
      const found = isCut ? 'no entry, and is cut off: nobody was told that it is recorded' : 'an entry';
      const text = tail.toString('latin1', 0, TAIL_BYTES_LOGGED);
      const message = `the last line of ${this.#path} has no line feed; it is ${found}`;
      this.#deps.log.warn({ file: this.#path, bytes: tail.length, text }, message);
    }
    if (isNew || tail.length > 0) {
      // Also if nothing changed: the process that created the file may have been killed before its sync.
      await this.#handle.sync();
      await syncFolder(this.#path);
    }
    await this.#assertUnchanged();
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
    if ((await this.#sizeIfInPlace()) !== this.#length)
      throw new Error(
        'the file was changed while this process had it open; restart the process to read it again, ' +
          'and stop it before editing the file next time',
      );
  }
}

/**
 * Reads a file of entries, a part of it at a time.
 *
 * @param path for messages
 * @param from how many bytes were read before
 * @returns the number of bytes of all lines, and what is behind the last line feed
 * @throws the failure of its kind, `unreadable`, if a line is no entry
 */
export async function readLines(
  handle: FileHandle,
  path: string,
  { ifDamaged, Failure }: FileKind,
  take: FileDeps['take'],
  from = 0,
): Promise<{ readonly length: number; readonly tail: Buffer }> {
  let length = from;
  let lineNumber = 0;
  const takeLine = (line: string) => {
    lineNumber++;
    const defect = line.length > MAX_LINE_LENGTH ? 'it is too long' : take(line);
    if (defect === null) return;
    const message = `${path}:${lineNumber}${from > 0 ? ` behind byte ${from}` : ''} is no entry: ${defect}. Nothing may be skipped: ${ifDamaged}.`;
    throw new Failure('unreadable', message);
  };
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
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
