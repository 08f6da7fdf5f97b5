import { Buffer } from 'node:buffer';
import { constants, write } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Logger } from 'pino';

// The most text that waits to be written; what comes on top is dropped.
const MAX_WAITING = 4 * 1024 * 1024;
const MAX_CHUNK = 64 * 1024;
// A pipe takes so much in one piece or not at all, so that no line of another writer gets into ours.
const MAX_PIPE_CHUNK = 4096;
const GATHER_MS = 100;
const FULL_PAUSE_MS = 20;
const FAULT_PAUSE_MS = 1000;
const LOG_PAUSE_MS = 10_000;
const CLOSE_MS = 2000;

const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;

/**
 * Appends lines to a file, or to standard output (`-`), and never keeps its caller waiting: lines gather in memory, and
 * are dropped and counted where they are not taken away fast enough.
 */
export class LineFile {
  readonly #path: string;
  readonly #log: Logger;
  #sink: Sink;
  /** Lines that wait; from `#next` on. */
  #lines: string[] = [];
  #next = 0;
  #waiting = 0;
  #written = 0;
  #dropped = 0;
  #isRunning = false;
  #isClosed = false;
  /** The last chunk was written in part: what comes next begins a new line. */
  #isTorn = false;
  #loggedAt = -Infinity;
  #reopened: Sink | null = null;

  private constructor(path: string, sink: Sink, log: Logger) {
    this.#path = path;
    this.#sink = sink;
    this.#log = log;
  }

  /**
   * @param path `-` for standard output. A file that is not there is created, for its owner to write and its group to read
   * @throws Error where it cannot be opened for writing; a pipe that nobody reads counts as such
   */
  static async open(path: string, log: Logger): Promise<LineFile> {
    return new LineFile(path, await openSink(path), log);
  }

  /** Lines written so far. */
  get written(): number {
    return this.#written;
  }

  /** Lines that were dropped: too many waited, or they could not be written. */
  get dropped(): number {
    return this.#dropped;
  }

  /** @param line without a line break */
  write(line: string): void {
    if (this.#isClosed || this.#waiting + line.length > MAX_WAITING) {
      this.#dropped++;
      return;
    }
    this.#lines.push(line);
    this.#waiting += line.length;
    if (this.#isRunning) return;
    this.#isRunning = true;
    setTimeout(() => void this.#run(), GATHER_MS).unref();
  }

  /** Opens the file anew, after somebody has moved it away. Where that fails, the old one is written on. */
  async reopen(): Promise<void> {
    if (this.#path === '-' || this.#isClosed) return;
    const sink = await openSink(this.#path);
    await this.#reopened?.close();
    // A chunk may be on its way to the old file, which is closed behind it.
    this.#reopened = sink;
    if (!this.#isRunning) await this.#takeReopened();
  }

  /** Writes what waits, for two seconds at most. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const end = performance.now() + CLOSE_MS;
    if (!this.#isRunning && this.#lines.length > 0) void this.#run();
    while (this.#isRunning && performance.now() < end) {
      await pause(10);
      // What gathers is not waited for.
      if (this.#lines.length === 0) break;
    }
    this.#dropped += this.#lines.length - this.#next;
    this.#lines = [];
    this.#next = this.#waiting = 0;
    await this.#reopened?.close();
    await this.#sink.close();
  }

  async #run(): Promise<void> {
    while (this.#next < this.#lines.length) {
      await this.#takeReopened();
      const from = this.#next;
      const text = this.#take();
      try {
        await this.#append(Buffer.from(text));
        this.#written += this.#next - from;
      } catch (error) {
        this.#dropped += this.#next - from;
        this.#complain(error as Error);
        if (this.#isClosed) break;
        await pause(FAULT_PAUSE_MS, undefined, { ref: false });
      }
      if (this.#next === this.#lines.length) {
        this.#lines = [];
        this.#next = 0;
      }
    }
    this.#isRunning = false;
    await this.#takeReopened();
  }

  /** The next lines, as many as go into one chunk, and at least one. */
  #take(): string {
    let text = this.#isTorn ? '\n' : '';
    do {
      const line = this.#lines[this.#next++] as string;
      this.#waiting -= line.length;
      text += `${line}\n`;
    } while (
      this.#next < this.#lines.length &&
      text.length + (this.#lines[this.#next] as string).length < this.#sink.maxChunk
    );
    return text;
  }

  async #append(chunk: Buffer): Promise<void> {
    let at = 0;
    this.#isTorn = false;
    while (at < chunk.length) {
      try {
        at += await this.#sink.write(chunk, at);
      } catch (error) {
        this.#isTorn = at > 0;
        // A pipe whose reader is slow.
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || this.#isClosed) throw error;
        await pause(FULL_PAUSE_MS, undefined, { ref: false });
      }
    }
    this.#isTorn = false;
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

/** What lines are written to. */
interface Sink {
  readonly maxChunk: number;
  /** Writes what it can take, from `at` on. @returns how many bytes that was */
  write(chunk: Buffer, at: number): Promise<number>;
  close(): Promise<void>;
}

async function openSink(path: string): Promise<Sink> {
  if (path === '-') return openSink('/dev/stdout').catch(() => standardOutput);
  // A pipe that is full must not keep a thread of libuv waiting.
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

/** For a standard output that cannot be opened anew: a socket, as systemd's journal is. */
const standardOutput: Sink = {
  maxChunk: MAX_PIPE_CHUNK,
  write: async (chunk, at) => (await writeTo(1, chunk, at)).bytesWritten,
  close: () => Promise.resolve(),
};
