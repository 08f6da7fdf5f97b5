import { once } from 'node:events';
import { createWriteStream, write, type WriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';

/** Maximum number of bytes that wait to be written. Further lines are dropped. */
const MAX_WAITING = 4 * 1024 * 1024;
const GATHER_MS = 100;
/** After a fault, lines are dropped for this time. Then the file is opened again. */
const FAULT_PAUSE_MS = 1000;
const CLOSE_MS = 2000;
/** A full pipe is written to again after this time. */
const FULL_PAUSE_MS = 10;

/**
 * Appends lines to a file or to standard output (`-`) without blocking the caller. Lines wait in memory; if the output is too
 * slow, further lines are dropped and counted. docs/adr/0035-decision-log-without-sonic-boom.md has the alternatives.
 */
export class LineFile {
  readonly #path: string;
  readonly #log: Logger;
  #stream: WriteStream;
  /** When {@link #stream} failed; `null` while it works. */
  #failedAt: number | null = null;
  /** Whether the fault was logged. It is logged once, until a line is written again. */
  #isLogged = false;
  #isClosed = false;
  /** Lines written so far. */
  written = 0;
  /** Lines dropped so far, because too many were waiting or a write failed. */
  dropped = 0;

  private constructor(path: string, log: Logger, stream: WriteStream) {
    this.#path = path;
    this.#log = log;
    this.#stream = this.#watch(stream);
  }

  /**
   * @param path `-` for standard output. A missing file is created with mode 640
   * @throws Error if it cannot be opened for writing, or is no regular file
   */
  static async open(path: string, log: Logger): Promise<LineFile> {
    try {
      return new LineFile(path, log, await openStream(path));
    } catch (error) {
      const remedy = 'Its folder must exist, and this process must be able to write to it.';
      const message = `cannot write the decision log (DECISION_LOG): ${(error as Error).message}. ${remedy}`;
      throw new Error(message, { cause: error });
    }
  }

  /** @param line without a line break */
  write(line: string): void {
    if (this.#isClosed || !this.#isUsable() || this.#stream.writableLength + line.length > MAX_WAITING) {
      this.dropped++;
      return;
    }
    const stream = this.#stream;
    if (stream.writableCorked === 0) {
      stream.cork();
      setTimeout(() => stream.uncork(), GATHER_MS).unref();
    }
    stream.write(`${line}\n`, this.#count);
  }

  /** Reopens the file after it was renamed (log rotation). If that fails, lines still go to the old file. */
  async reopen(): Promise<void> {
    if (this.#path === '-' || this.#isClosed) return;
    const stream = this.#watch(await openStream(this.#path));
    // Read only here: another call may have reopened the file meanwhile.
    const old = this.#stream;
    this.#stream = stream;
    this.#failedAt = null;
    old.end();
  }

  /** Writes the waiting lines, for at most two seconds, and closes the file. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const ended = new Promise<void>((resolve) => this.#stream.end(() => resolve()));
    if (this.#failedAt === null) await Promise.race([ended, pause(CLOSE_MS, undefined, { ref: false })]);
    this.#stream.destroy();
  }

  /** Whether the stream can be written to. After a fault, a new one is opened once the pause is over. */
  #isUsable(): boolean {
    if (this.#failedAt === null) return true;
    if (performance.now() - this.#failedAt < FAULT_PAUSE_MS) return false;
    this.#failedAt = null;
    this.#stream = this.#watch(streamTo(this.#path));
    // A full disk may have taken a part of a line, into which the next one must not run.
    this.#stream.write('\n');
    return true;
  }

  readonly #count = (error?: Error | null): void => {
    if (error) this.dropped++;
    else {
      this.written++;
      this.#isLogged = false;
    }
  };

  #watch(stream: WriteStream): WriteStream {
    return stream.on('error', (err) => {
      if (stream === this.#stream) this.#failedAt = performance.now();
      if (this.#isLogged) return;
      this.#isLogged = true;
      this.#log.error({ err, path: this.#path }, 'lines of the decision log were dropped');
    });
  }
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
