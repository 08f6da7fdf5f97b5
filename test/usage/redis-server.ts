import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { ended } from '../support/child.js';
import { startOnPort } from '../support/ports.mjs';

/**
 * In memory: on a disk that other programs keep busy, one fsync can take seconds, in which Redis answers nobody. Memory
 * survives `kill -9`, and no test turns the power off.
 */
const FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** A real Redis on a port of its own. */
export class RedisServer {
  readonly url: string;
  readonly #port: number;
  readonly #options: readonly string[];
  readonly #directory = mkdtempSync(path.join(FOLDER, 'drs-redis-'));
  #process: ChildProcess | null = null;

  private constructor(port: number, options: readonly string[]) {
    this.#options = options;
    this.#port = port;
    this.url = `redis://127.0.0.1:${port}`;
  }

  /** @param options further options of the command, such as `--maxmemory-policy` */
  static async start(...options: string[]): Promise<RedisServer> {
    return startOnPort(async (port) => {
      const server = new RedisServer(port, options);
      await server.restart();
      return server;
    });
  }

  /** @param options more options than it was started with */
  async restart(...options: string[]): Promise<void> {
    const child = spawn(
      'redis-server',
      [
        '--port',
        String(this.#port),
        '--bind',
        '127.0.0.1',
        '--save',
        '',
        // Else an append-only file is not even written while a disk is slow, and kill -9 loses what was confirmed.
        '--appendfsync',
        'always',
        '--appendonly',
        'yes',
        '--dir',
        this.#directory,
        ...this.#options,
        ...options,
      ],
      // A locale that is set but not installed keeps some versions from starting.
      { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, LC_ALL: 'C' } },
    );
    this.#process = child;
    let output = '';
    for await (const line of createInterface({ input: child.stdout })) {
      output = `${output}${line}\n`.slice(-4000);
      if (!line.includes('Ready to accept connections')) continue;
      // Redis stands still where nobody reads what it logs.
      child.stdout.resume();
      return;
    }
    await this.stop();
    throw new Error(`redis-server ended before it was ready: ${output}`);
  }

  /** Freezes the server: connections stay open and nothing is answered. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    child.kill('SIGKILL');
    await ended(child);
  }

  async stop(): Promise<void> {
    await this.kill();
    // A child of it may still be writing.
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 5 });
  }
}
