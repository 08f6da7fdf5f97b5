import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { RedisClient } from 'redis';
import { ended } from '../support/child.js';
import { startOnPort } from '../support/ports.mjs';

// `createClient` makes a class for each address, which takes 20 ms.
const newClient = RedisClient.factory();

/**
 * In memory: on a disk that other programs keep busy, one fsync can take seconds, in which Redis answers nobody. Memory
 * survives `kill -9`, and no test turns the power off.
 */
const FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** Leaves the mark of a look of an hour ago: see docs/spec/loss.md. @param prefix of the keys */
export async function markAsUsed(server: { readonly url: string }, prefix = 'drs:replay:'): Promise<void> {
  // Some tests take the command away.
  const info = String(await command(server, ['INFO']).catch(() => ''));
  const said = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1] ?? '-';
  const then = Date.now() - 3_600_000;
  const mark = ['v1', 'tests', said('run_id'), said('master_replid'), 0, 0, 0, 0, then];
  await command(server, ['SET', `${prefix}mark`, mark.join(' ')]);
}

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

  /**
   * Starts one in which a verifier has looked long ago, so that calls from before count as on record.
   *
   * @param options further options of the command, such as `--maxmemory-policy`
   */
  static async start(...options: string[]): Promise<RedisServer> {
    const server = await RedisServer.startNew(...options);
    // Those need something else, or take no writes.
    const others = ['--cluster-enabled', '--replicaof', '--requirepass'];
    if (!others.some((option) => options.includes(option))) await markAsUsed(server);
    return server;
  }

  /** Starts one in which nobody has looked. */
  static async startNew(...options: string[]): Promise<RedisServer> {
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

/** Sends one command to one server. */
export async function command(server: { readonly url: string }, parts: string[]): Promise<unknown> {
  // Without this it tries for ever to reach a server that has ended.
  const client = newClient({ url: server.url, socket: { reconnectStrategy: false } });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await client.sendCommand(parts);
  } finally {
    client.destroy();
  }
}
