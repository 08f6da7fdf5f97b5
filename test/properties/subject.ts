import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

/** A checkout of any commit, with its `dist/`, on which properties are checked. Only public interfaces are used. */
export class Subject {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = path.resolve(dir);
  }

  /** A module of the package. */
  async load<T>(file: string): Promise<T> {
    return (await import(pathToFileURL(path.join(this.dir, 'dist', file)).href)) as T;
  }

  async verifier(options: object = {}): Promise<Verifier> {
    const { createVerifier } = await this.load<{ createVerifier: (options: object) => Verifier }>('index.js');
    return createVerifier({ workerThreads: 0, ...options });
  }

  /** Runs a command of the package to its end. */
  async run(
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<{ code: number | null; output: string }> {
    const child = this.#spawn(args, env);
    const output = outputOf(child);
    // A command that does not end is killed; its exit code is then `null`.
    const watchdog = setTimeout(() => child.kill('SIGKILL'), 20_000);
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(watchdog);
    return { code, output: output() };
  }

  /** Starts the service; `undefined` if it does not start. */
  async serve(env: Record<string, string> = {}): Promise<Service | undefined> {
    const child = this.#spawn(['serve'], { PORT: '0', QUEUE_BURST_MS: '60000', ...env });
    const output = outputOf(child);
    const exited = once(child, 'close');
    const ended = exited.then(() => undefined);
    for (;;) {
      const line = output()
        .split('\n')
        .find((text) => text.includes('"msg":"listening"'));
      const url = line === undefined ? undefined : (JSON.parse(line) as { url: string }).url;
      if (url !== undefined) return new Service(url, child, output);
      const more = await Promise.race([ended.then(() => 'ended'), sleep(50)]);
      if (more === 'ended') return undefined;
    }
  }

  #spawn(args: readonly string[], env: Record<string, string>): ChildProcess {
    return spawn(process.execPath, ['dist/cli/main.js', ...args], {
      cwd: this.dir,
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }
}

function outputOf(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return () => text;
}

export interface Verifier {
  verify(bundle: unknown, options?: object): Promise<Verdict>;
  revoke(index: number): Promise<void>;
  close(): Promise<void>;
}

export interface Verdict {
  readonly valid: boolean;
  readonly context?: Record<string, unknown>;
  readonly error?: { readonly code: string };
  readonly binding?: string;
}

export class Service {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly output: () => string;
  readonly #child: ChildProcess;

  constructor(url: string, child: ChildProcess, output: () => string) {
    this.url = url;
    this.port = Number(new URL(url).port);
    this.pid = child.pid ?? 0;
    this.#child = child;
    this.output = output;
  }

  post(
    where: string,
    body: unknown,
    headers: Record<string, string> = {},
    signal: AbortSignal | null = null,
  ): Promise<Response> {
    return fetch(this.url + where, {
      method: 'POST',
      signal,
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  }

  /**
   * Sends bytes unchanged, in pieces with pauses between. Resolves with what was received until the end, or `until`.
   */
  async raw(pieces: readonly string[], until = /\r\n\r\n/): Promise<string> {
    const socket = net.connect(this.port, '127.0.0.1');
    let text = '';
    const ended = new AbortController();
    socket.setNoDelay(true);
    socket.on('data', (chunk) => (text += chunk.toString('latin1')));
    socket.on('error', () => ended.abort());
    socket.on('close', () => ended.abort());
    await once(socket, 'connect');
    for (const piece of pieces) {
      if (ended.signal.aborted) break;
      socket.write(piece, 'latin1');
      if (pieces.length > 1) await sleep(20);
    }
    const end = Date.now() + 10_000;
    while (!ended.signal.aborted && Date.now() < end && !until.test(text)) await sleep(10);
    socket.destroy();
    return text;
  }

  /** Whether it answers within a time that is enough even on a busy machine. */
  async answers(milliseconds = 20_000): Promise<boolean> {
    try {
      const answer = await fetch(`${this.url}/healthz`, { signal: AbortSignal.timeout(milliseconds) });
      await answer.text();
      return answer.status === 200;
    } catch {
      return false;
    }
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await exited;
  }
}

export const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));
