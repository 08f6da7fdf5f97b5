import { Buffer } from 'node:buffer';
import { constants, write } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Logger } from 'pino';

// Maximum number of characters that wait to be written. Further lines are dropped.
const MAX_WAITING = 4 * 1024 * 1024;
const MAX_CHUNK = 64 * 1024;
// Up to this size (PIPE_BUF), a write to a pipe is atomic, so lines of other writers cannot get into ours.
const MAX_PIPE_CHUNK = 4096;
const GATHER_MS = 100;
const FULL_PAUSE_MS = 20;
const FAULT_PAUSE_MS = 1000;
const LOG_PAUSE_MS = 10_000;
const CLOSE_MS = 2000;

const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;

/** Lines that are written at once. */
interface Chunk {
  text: string;
  lines: number;
}

/**
 * Appends lines to a file or to standard output (`-`) without blocking the caller. Lines wait in memory; if the
 * output is too slow, further lines are dropped and counted.
 *
 * pino's sonic-boom cannot do this: docs/adr/0035-decision-log-without-sonic-boom.md says why.
 */
export class LineFile {
  readonly #path: string;
  readonly #log: Logger;
  #sink: Sink;
  #reopened: Sink | null = null;
  readonly #chunks: Chunk[] = [];
  /** The chunk that is being written; it is none of {@link #chunks}. */
  #writing: Chunk | null = null;
  #waiting = 0;
  #written = 0;
  #dropped = 0;
  #isRunning = false;
  #isClosed = false;
  /** Whether the file ends with a part of a line; the next chunk then begins with a line break. */
  #isTorn = false;
  #loggedAt = -Infinity;

  private constructor(path: string, sink: Sink, log: Logger) {
    this.#path = path;
    this.#sink = sink;
    this.#log = log;
  }

  /**
   * @param path `-` for standard output. A missing file is created with mode 640
   * @throws Error if it cannot be opened for writing, for example because it is a pipe without a reader
   */
  static async open(path: string, log: Logger): Promise<LineFile> {
    return new LineFile(path, await openSink(path), log);
  }

  /** Lines written so far. */
  get written(): number {
    return this.#written;
  }

  /** Lines dropped so far, because too many were waiting or a write failed. */
  get dropped(): number {
    return this.#dropped;
  }

  /** @param line without a line break */
  write(line: string): void {
    if (this.#isClosed || this.#waiting + line.length > MAX_WAITING) {
      this.#dropped++;
      return;
    }
    this.#waiting += line.length + 1;
    const last = this.#chunks.at(-1);
    if (last !== undefined && last.text.length + line.length < this.#sink.maxChunk) {
      last.text += `${line}\n`;
      last.lines++;
    } else {
      this.#chunks.push({ text: `${line}\n`, lines: 1 });
    }
    if (this.#isRunning) return;
    this.#isRunning = true;
    setTimeout(() => void this.#run(), GATHER_MS).unref();
  }

  /** Reopens the file after it was renamed (log rotation). If that fails, lines still go to the old file. */
  async reopen(): Promise<void> {
    if (this.#path === '-' || this.#isClosed) return;
    const sink = await openSink(this.#path);
    await this.#reopened?.close();
    // A write to the old file may be in progress; #takeReopened closes that file later.
    this.#reopened = sink;
    if (!this.#isRunning) await this.#takeReopened();
  }

  /** Writes the waiting lines, for at most two seconds, and closes the file. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const end = performance.now() + CLOSE_MS;
    // #run may pause after the last chunk: no need to wait for its end.
    while ((this.#chunks.length > 0 || this.#writing !== null) && this.#isRunning && performance.now() < end)
      await pause(10);
    for (const { lines } of this.#chunks.splice(0)) this.#dropped += lines;
    await this.#reopened?.close();
    await this.#sink.close();
  }

  async #run(): Promise<void> {
    while ((this.#writing = this.#chunks.shift() ?? null) !== null) {
      const { text, lines } = this.#writing;
      this.#waiting -= text.length;
      try {
        await this.#takeReopened();
        await this.#append(text);
        this.#written += lines;
      } catch (error) {
        this.#dropped += lines;
        this.#writing = null;
        this.#complain(error as Error);
        if (this.#isClosed) break;
        await pause(FAULT_PAUSE_MS, undefined, { ref: false });
      }
    }
    this.#isRunning = false;
    await this.#takeReopened();
  }

  async #append(text: string): Promise<void> {
    const bytes = Buffer.from(this.#isTorn ? `\n${text}` : text);
    for (let at = 0; at < bytes.length;) {
      try {
        at += await this.#sink.write(bytes, at);
        this.#isTorn = at < bytes.length;
      } catch (error) {
        // EAGAIN: a pipe is full because its reader is slow.
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || this.#isClosed) throw error;
        await pause(FULL_PAUSE_MS, undefined, { ref: false });
      }
    }
  }

  async #takeReopened(): Promise<void> {
    if (this.#reopened === null) return;
    const old = this.#sink;
    this.#sink = this.#reopened;
    this.#reopened = null;
    await old.close();
  }

  #complain(err: Error): void {
    const now = performance.now();
    if (now - this.#loggedAt < LOG_PAUSE_MS) return;
    this.#loggedAt = now;
    this.#log.error(
      { err, path: this.#path, dropped: this.#dropped },
      'lines of the decision log were dropped',
    );
  }
}

/** The file or pipe that lines are written to. */
interface Sink {
  readonly maxChunk: number;
  /** Writes as many bytes from position `at` on as it can. @returns the number of bytes written */
  write(bytes: Buffer, at: number): Promise<number>;
  close(): Promise<void>;
}

async function openSink(path: string): Promise<Sink> {
  if (path === '-') return openSink('/dev/stdout').catch(() => standardOutput);
  // O_NONBLOCK: otherwise a full pipe would block a libuv thread.
  const flags = O_WRONLY | O_APPEND | O_NONBLOCK | (path.startsWith('/dev/') ? 0 : O_CREAT);
  const handle = await open(path, flags, 0o640);
  const isFile = (await handle.stat()).isFile();
  return {
    maxChunk: isFile ? MAX_CHUNK : MAX_PIPE_CHUNK,
    write: async (chunk, at) => (await handle.write(chunk, at)).bytesWritten,
    close: () => handle.close(),
  };
}

const writeTo = promisify(write);

/** For a standard output that cannot be opened by path, such as the socket of systemd's journal. */
const standardOutput: Sink = {
  maxChunk: MAX_PIPE_CHUNK,
  write: async (chunk, at) => (await writeTo(1, chunk, at)).bytesWritten,
  close: () => Promise.resolve(),
};
