import { constants } from 'node:fs';
import { open, realpath, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { lockFile, type FileLock } from './file-lock.js';
import { IndexLines } from './index-lines.js';
import type { IndexSet } from './index-set.js';
import type { RevocationLog, RevocationObserver } from '../observer.js';
import { RevocationStoreError } from './store-error.js';

const CHUNK_BYTES = 1024 * 1024;
// Indices are sorted in batches of this size before they go into the set: a start with 10 million lines is then about
// ten times faster.
const BATCH_INDICES = 1024 * 1024;
const DAMAGED_LINES_LOGGED = 20;
const TAIL_BYTES_LOGGED = 64;
// Each line of the service begins with this. So a last line without a line feed that begins with it is a write that was
// not finished: `123` of `12345` must not be read as another index. Any other last line was written by somebody else.
const OWN_LINE_START = ' ';
const LINE_FEED = Buffer.from('\n');

interface Deps {
  readonly log: RevocationLog;
  readonly observer: RevocationObserver;
}

/**
 * The append-only file of revoked indices: one decimal index per line, and `#` comments. An index is recorded when its
 * line, including the line feed, is on disk. Only one process at a time may have the file open. Other people may edit it
 * while no process has it open.
 *
 * @see docs/spec/revocation.md
 */
export class IndexFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #lock: FileLock;
  readonly #observer: RevocationObserver;
  /** The offset after the last complete, flushed line. Anything after it was never acknowledged. */
  #length: number;
  /** Whether a write has failed, so that there may be bytes after {@link #length}. */
  #hasRemains = false;

  private constructor(
    path: string,
    handle: FileHandle,
    lock: FileLock,
    observer: RevocationObserver,
    length: number,
  ) {
    this.#path = path;
    this.#handle = handle;
    this.#lock = lock;
    this.#observer = observer;
    this.#length = length;
  }

  /**
   * Opens the file and reads all indices. Creates a missing file. If the last line has no line feed, the line is
   * cut off if the service wrote it; otherwise the line feed is added.
   *
   * @param into receives the indices
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string, into: IndexSet, deps: Deps): Promise<IndexFile> {
    let lock: FileLock | null = null;
    let handle: FileHandle | null = null;
    try {
      const target = await resolveLinks(path);
      lock = await lockFile(target);
      handle = await open(target, constants.O_RDWR | constants.O_CREAT, 0o640);
      const length = await load(handle, target, into, deps);
      // Also if nothing changed: the process that created the file may have been killed before its sync.
      await handle.sync();
      await syncFolder(dirname(target));
      return new IndexFile(target, handle, lock, deps.observer, length);
    } catch (error) {
      await handle?.close();
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
   * Writes indices and flushes them to disk. The caller must wait for one call before it makes the next.
   *
   * @throws an error of the file system, or an error that another program has changed the file. Then none of the
   *   indices is recorded, and the next call first cuts off any partial write.
   */
  async append(indices: Iterable<number>): Promise<void> {
    if (this.#hasRemains) await this.#cutRemains();
    await this.#assertUnchanged();
    const lines = Buffer.from(Array.from(indices, (index) => `${OWN_LINE_START}${index}\n`).join(''));
    this.#hasRemains = true;
    try {
      for (let done = 0; done < lines.length;) {
        const rest = lines.length - done;
        done += (await this.#handle.write(lines, done, rest, this.#length + done)).bytesWritten;
      }
      const startedAt = performance.now();
      await this.#handle.sync();
      this.#observer.storeSynced?.(performance.now() - startedAt);
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

  async #cutRemains(): Promise<void> {
    await this.#handle.truncate(this.#length);
    this.#hasRemains = false;
  }

  /**
   * Detects changes by other programs. If an editor replaced the file, this process would write to a file that nobody
   * reads again. If another program appended a line, this process would overwrite it.
   */
  async #assertUnchanged(): Promise<void> {
    const [opened, named] = await Promise.all([this.#handle.stat(), stat(this.#path)]);
    if (opened.ino !== named.ino || opened.dev !== named.dev || opened.size !== this.#length) {
      throw new Error(
        'the file was changed while this process had it open; restart the process to read it again, ' +
          'and stop it before editing the file next time',
      );
    }
  }
}

/** @returns the offset after the last complete line */
async function load(
  handle: FileHandle,
  path: string,
  into: IndexSet,
  { log, observer }: Deps,
): Promise<number> {
  const batch = new Float64Array(BATCH_INDICES);
  let inBatch = 0;
  let damagedLines = 0;
  const lines = new IndexLines(
    (index) => {
      batch[inBatch++] = index;
      if (inBatch === BATCH_INDICES) flush();
    },
    (line) => {
      damagedLines++;
      observer.storeLineDamaged?.();
      if (damagedLines > DAMAGED_LINES_LOGGED) return;
      log.error(
        { file: path, line },
        `${path}:${line} is neither an index nor a # comment; the line is skipped`,
      );
    },
  );
  const flush = () => {
    into.load(batch.subarray(0, inBatch));
    inBatch = 0;
  };

  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, length);
    if (bytesRead === 0) break;
    lines.read(chunk.subarray(0, bytesRead));
    length += bytesRead;
  }
  if (lines.tailLength > 0) length = await endLastLine(handle, path, length, lines, log);
  flush();

  if (damagedLines > DAMAGED_LINES_LOGGED) {
    log.error(
      { file: path, damagedLines },
      `${path} has ${damagedLines} damaged lines in all; they are skipped`,
    );
  }
  return length;
}

/**
 * Handles a last line without a line feed. The caller must sync the file before it uses what was read.
 *
 * @returns the new length of the file
 */
async function endLastLine(
  handle: FileHandle,
  path: string,
  length: number,
  lines: IndexLines,
  log: RevocationLog,
): Promise<number> {
  const bytes = lines.tailLength;
  const start = length - bytes;
  const shown = Buffer.alloc(Math.min(bytes, TAIL_BYTES_LOGGED));
  const { bytesRead } = await handle.read(shown, 0, shown.length, start);
  const text = shown.toString('latin1', 0, bytesRead);
  if (text.startsWith(OWN_LINE_START)) {
    await handle.truncate(start);
    log.warn(
      { file: path, bytes, text },
      `${path} ended in a line of this service without a line feed, which was never acknowledged; it is cut off`,
    );
    return start;
  }
  await handle.write(LINE_FEED, 0, LINE_FEED.length, length);
  log.warn(
    { file: path, bytes, text },
    `${path} ended in a line without a line feed, which this service did not write; ` +
      'the line feed is added and the line is read like any other',
  );
  lines.read(LINE_FEED);
  return length + LINE_FEED.length;
}

/** Resolves symbolic links, so that two names of one file share one lock. */
async function resolveLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return join(await realpath(dirname(path)), basename(path));
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
