import { once } from 'node:events';
import { createWriteStream, write, type WriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { lockFile } from '../files/file-lock.js';
import type { NoteKey } from './checkpoint.js';
import { Sealer } from './sealer.js';

/** Maximum number of bytes that wait to be written. Further lines are dropped. */
const MAX_WAITING = 4 * 1024 * 1024;
const GATHER_MS = 100;
/** How long lines wait for a checkpoint. */
const SEAL_MS = 60_000;
/** After a fault, lines are dropped for this time. Then the file is opened again. */
const FAULT_PAUSE_MS = 1000;
const CLOSE_MS = 2000;
/** How long it waits for another process that may be just ending. */
const LOCK_MS = 5000;
/** A full pipe is written to again after this time. */
const FULL_PAUSE_MS = 10;

export type LineFile = Awaited<ReturnType<typeof openLineFile>>;

const LOCKED = {
  mode: 0o640,
  ifLocked: 'give each instance a DECISION_LOG of its own: only one can number its lines',
};

/**
 * Opens a file or standard output (`-`), to which lines are appended without blocking the caller. Lines wait in memory; if the
 * output is too slow, further lines are dropped and counted. (sonic-boom counts bytes, not lines, and tries again at once.)
 *
 * @param path `-` for standard output. A missing file is created with mode 640
 * @param key numbers the lines of a file, and signs what they are together (docs/spec/log.md); `null` for lines as they come
 * @throws Error if it cannot be opened for writing, is no regular file, or no log of this key
 */
export async function openLineFile(path: string, log: Logger, key: NoteKey | null = null) {
  /** Lines written so far, and dropped, because too many were waiting or a write failed. */
  const counts = { written: 0, dropped: 0 };
  /** When the stream failed; `null` while it works. */
  let failedAt: number | null = null;
  /** Whether the fault was logged. It is logged once, until a line is written again. */
  let isLogged = false;
  let isClosed = false;
  let isOpening = false;
  let sealer: Sealer | null = null;
  /** Of the file that is sealed. */
  let inode = 0;
  /** Lines that have come since the last timer, and how long they are. */
  let [waiting, size]: [string[], number] = [[], 0];

  const watch = (opened: WriteStream): WriteStream =>
    opened.on('error', (err) => {
      if (opened === stream) failedAt = performance.now();
      if (isLogged) return;
      isLogged = true;
      log.error({ err, path }, 'lines of the decision log were dropped');
    });
  if (key !== null && path === '-')
    throw new Error('DECISION_LOG_KEY needs a file: standard output cannot be read to go on after a crash');
  // Hidden: `decisions.jsonl*` are the files of a log.
  const place = join(dirname(path), `.${basename(path)}`);
  const lock = key === null ? null : await lockFile(place, LOCKED, LOCK_MS);
  const begin = async (): Promise<WriteStream> => {
    const opened = await openStream(path);
    if (key === null) return opened;
    inode = (await stat(path)).ino;
    sealer = await Sealer.open(path, key);
    opened.write(sealer.begin());
    return opened;
  };
  const first = await begin().catch(async (cause: unknown) => {
    await lock?.close();
    const remedy = 'Its folder must exist, and this process must be able to write to it.';
    const problem = `cannot write the decision log (DECISION_LOG): ${(cause as Error).message}`;
    throw new Error(`${problem}. ${remedy}`, { cause });
  });
  let stream = watch(first);

  /** Opens the file anew after a fault, and finds what of the waiting lines is in it. */
  const goOn = async (): Promise<void> => {
    isOpening = true;
    try {
      stream = watch(await begin());
      // A full disk may have taken a part of a line, into which the next one must not run.
      if (key === null) stream.write('\n');
      failedAt = null;
    } catch {
      failedAt = performance.now();
    }
    isOpening = false;
  };
  /** Whether the stream can be written to. After a fault, a new one is opened once the pause is over. */
  const isUsable = (): boolean => {
    if (failedAt === null) return true;
    if (!isOpening && performance.now() - failedAt >= FAULT_PAUSE_MS) void goOn();
    return false;
  };
  const count = (error?: Error | null): void => {
    if (error) counts.dropped++;
    else {
      counts.written++;
      isLogged = false;
    }
  };
  const flush = (): void => {
    const lines = waiting;
    [waiting, size] = [[], 0];
    stream.cork();
    for (const line of lines) stream.write(sealer === null ? `${line}\n` : sealer.seal(line), count);
    if (sealer?.isLarge === true) stream.write(sealer.checkpoint());
    stream.uncork();
  };
  const sealAll = setInterval(() => {
    if (sealer?.isDue === true && isUsable()) stream.write(sealer.checkpoint());
  }, SEAL_MS).unref();

  return {
    counts,
    /** @param line without a line break */
    write: (line: string): void => {
      if (isClosed || !isUsable() || stream.writableLength + size + line.length > MAX_WAITING) {
        counts.dropped++;
        return;
      }
      if (waiting.push(line) === 1) setTimeout(flush, GATHER_MS).unref();
      size += line.length;
    },
    /** Reopens the file after it was renamed (log rotation). If that fails, lines still go to the old file. */
    reopen: async (): Promise<void> => {
      if (path === '-' || isClosed) return;
      const next = watch(await openStream(path));
      const { ino, size: bytes } = await stat(path);
      if (key !== null && ino !== inode && bytes > 0) {
        next.destroy();
        throw new Error(`${path} has lines already, expected a new file`);
      }
      inode = ino;
      flush();
      // Read only here: another call may have reopened the file meanwhile.
      const old = stream;
      // So that each file can be checked by itself.
      const seal = sealer?.checkpoint() ?? '';
      if (seal !== '') old.write(seal);
      stream = next;
      if (seal !== '') stream.write(seal);
      failedAt = null;
      old.end();
    },
    /** Writes the waiting lines, for at most two seconds, and closes the file. */
    close: async (): Promise<void> => {
      isClosed = true;
      clearInterval(sealAll);
      flush();
      if (sealer?.isDue === true) stream.write(sealer.checkpoint());
      const ended = new Promise<void>((resolve) => stream.end(() => resolve()));
      if (failedAt === null) await Promise.race([ended, pause(CLOSE_MS, undefined, { ref: false })]);
      stream.destroy();
      await lock?.close();
    },
  };
}
async function openStream(path: string): Promise<WriteStream> {
  if (path === '-') return streamTo(path);
  // Opening a named pipe would hold a thread of libuv until somebody reads from it.
  const found = await stat(path).catch(() => null);
  if (found?.isFile() === false)
    throw new Error(`${path} is no regular file, expected one, or - for standard output`);
  const stream = streamTo(path);
  await once(stream, 'open');
  return stream;
}

function streamTo(path: string): WriteStream {
  // Without `writev`, each line is written alone: a pipe takes up to 4,096 bytes whole (PIPE_BUF), so that no line of the
  // service's own log can get into one of ours.
  if (path === '-') return createWriteStream('', { fd: 1, autoClose: false, fs: { write: writeToPipe } });
  return createWriteStream(path, { flags: 'a', mode: 0o640 });
}

/** `fs.write` that waits while a pipe is full because its reader is slow. A stream of `node:fs` gives up after five tries. */
function writeToPipe(
  fd: number,
  bytes: Buffer,
  from: number,
  length: number,
  position: number | null,
  done: (error: NodeJS.ErrnoException | null, written: number, bytes: Buffer) => void,
): void {
  write(fd, bytes, from, length, position, (error, written) => {
    if (error?.code !== 'EAGAIN') done(error, written, bytes);
    else setTimeout(writeToPipe, FULL_PAUSE_MS, fd, bytes, from, length, position, done);
  });
}
