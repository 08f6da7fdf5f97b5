import { spawn, type ChildProcess } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { sum } from 'simple-statistics';
import { end } from '../../test/support/child.js';
import { processorTimeOf } from '../measure/processor-time.js';
import { pinned, program, ROOT } from '../run/programs.js';
import { CHECK, COLD_CACHE_BYTES, type Traffic, type Workload } from '../workload/workload.js';

export interface ServerOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeArgs?: readonly string[];
  readonly args?: readonly string[];
  /** Where it runs; default: on all cores. */
  readonly cores?: readonly number[] | null;
  /** Ends it where it is aborted. */
  readonly time?: AbortSignal | undefined;
}

/** The line of JSON that a server prints when it listens. */
interface Ready {
  readonly port: number;
  readonly grpcPort?: number;
}

export class ServerProcess {
  readonly port: number;
  readonly pid: number;
  readonly #grpcPort: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, { port, grpcPort = 0 }: Ready) {
    this.#child = child;
    this.port = port;
    this.#grpcPort = grpcPort;
    this.pid = child.pid ?? 0;
  }

  /**
   * Starts a program that prints a line of JSON with its `port` when it listens.
   *
   * @param file the compiled file, as a path below bench/ or an absolute path
   * @throws Error if it ends before it listens
   */
  static async start(
    file: string,
    { env = {}, nodeArgs = [], args = [], cores = null, time }: ServerOptions = {},
  ): Promise<ServerProcess> {
    const nodeArguments = [...nodeArgs, path.resolve(program(''), file), ...args];
    const child = spawn(...pinned(cores, process.execPath, nodeArguments), {
      cwd: ROOT,
      env: { PATH: process.env['PATH'], NODE_ENV: 'production', PORT: '0', ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
      ...{ ...(time && { signal: time }), killSignal: 'SIGKILL' },
    });
    const ready = await new Promise<Ready>((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const ready = readyIn(line);
        if (ready !== null) resolve(ready);
        else if (/"level":(50|60)/.test(line)) process.stderr.write(`${file}: ${line}\n`);
      });
      child.once('error', reject);
      child.once('exit', (code) =>
        reject(new Error(`${file} ended with ${String(code)} before it listened`)),
      );
    });
    return new ServerProcess(child, ready);
  }

  portFor({ path }: Pick<Workload, 'path'>): number {
    return path === CHECK ? this.#grpcPort : this.port;
  }

  /** Processor time so far, in µs; `NaN` if the operating system does not report it. */
  processorTime(): number {
    return processorTimeOf(this.pid);
  }

  /** The sum of all series of a counter or gauge of `/metrics`; with a label: of those that have it. */
  async metric(name: string, label = ''): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${this.port}/metrics`);
    const lines = (await response.text())
      .split('\n')
      .filter((line) => /^\w+/.exec(line)?.[0] === name && line.includes(label));
    if (lines.length === 0)
      throw new Error(`/metrics has no ${name} ${label}; the suite reads it to check what it measures`);
    return sum(lines.map((line) => Number(line.split(' ').at(-1))));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const kill = setTimeout(() => this.#child.kill('SIGKILL'), 20_000);
    await end(this.#child);
    clearTimeout(kill);
  }
}

function readyIn(line: string): Ready | null {
  try {
    const ready = JSON.parse(line) as Partial<Ready> & { readonly url?: string };
    // A guard says only its URL. A Unix socket has no port.
    const port = ready.port ?? (ready.url === undefined ? undefined : Number(new URL(ready.url).port));
    return typeof port === 'number' ? { ...ready, port } : null;
  } catch {
    return null;
  }
}

export const environmentFor = (traffic: Traffic): Readonly<Record<string, string>> =>
  traffic === 'cold' ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {};

/** Starts the service of this clone. @param env its environment, in addition to the defaults */
export function startService(
  env: Readonly<Record<string, string>> = {},
  options: Omit<ServerOptions, 'env'> = {},
): Promise<ServerProcess> {
  const frontEnd = { FRONT_END: process.env['FRONT_END'] ?? '' };
  return startTree(ROOT, { ...options, env: { ...frontEnd, SERVER_IDENTITY: 'any', ...env } });
}

/** Starts the service of a built tree of this project with its command: `drs serve`. */
export function startTree(folder: string, options: ServerOptions = {}): Promise<ServerProcess> {
  return ServerProcess.start(path.join(folder, 'dist/cli/main.js'), { ...options, args: ['serve'] });
}
