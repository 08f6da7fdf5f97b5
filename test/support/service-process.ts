import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { ended } from './child.js';
import { startOnPort } from './ports.mjs';

/** The service that `npm run setup` has built. Scripts run in the folder of the project. */
const MAIN = 'dist/cli/main.js';

/** Options for running a service. */
export interface ProcessOptions {
  readonly env: Readonly<Record<string, string>>;
  /** A command with its arguments that runs the service, such as a wrapper. */
  readonly within?: readonly string[];
  readonly nodeFlags?: readonly string[];
  /** The main file of another build. */
  readonly main?: string;
}

/** The real service in a process that can be stopped, killed and started again on the same port. */
export class ServiceProcess {
  readonly port: number;
  readonly url: string;
  readonly log: Record<string, unknown>[] = [];
  errors = '';
  #options: ProcessOptions;
  #child: ChildProcess | null = null;

  private constructor(port: number, options: ProcessOptions) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.#options = options;
  }

  static start(options: ProcessOptions): Promise<ServiceProcess> {
    return startOnPort(async (port) => {
      const service = new ServiceProcess(port, options);
      await service.restart();
      return service;
    });
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts it, again or with other options. Resolves once it listens. */
  async restart(options: Partial<ProcessOptions> = {}): Promise<void> {
    this.#options = { ...this.#options, ...options };
    const { env, within = [], nodeFlags = [], main = MAIN } = this.#options;
    const [program, ...args] = [...within, process.execPath, ...nodeFlags, main, 'serve'];
    const child = spawn(program, args, {
      env: { PATH: process.env['PATH'] ?? '', PORT: String(this.port), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.on('data', (chunk: Buffer) => (this.errors += chunk.toString()));
    await new Promise<void>((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const entry = JSON.parse(line) as Record<string, unknown>;
        if (this.log.length < 10_000) this.log.push(entry);
        if (entry['msg'] === 'listening') resolve();
      });
      child.once('exit', (code, signal) => {
        reject(new Error(`the service ended with ${code ?? signal}: ${this.errors}`));
      });
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Sends a signal, and waits until the process has ended. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    child.kill(signal);
    await ended(child);
  }
}
