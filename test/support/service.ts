import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FRONT_END } from './front-end.js';
import { checkAnswersOf } from './openapi.js';
import { postTo, type Post } from './post.js';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The environment of a service in tests. `undefined` unsets what tests usually set. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The real service in a process of its own. */
export interface RunningService {
  readonly url: string;
  readonly port: number;
  readonly child: ChildProcess;
  /** The lines it has logged so far. */
  readonly log: readonly Record<string, unknown>[];
  readonly post: Post;
  /** Asks it to stop. Resolves with its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Whether {@link startService} starts a process. In mutation runs, `service-in-process.ts` takes the place of this file. */
export const hasProcess: boolean = true;

/** The arguments with which Node runs the service. */
export const SERVICE_COMMAND: readonly string[] = [MAIN, 'serve'];

/** Options for the process of a service. */
export interface ProcessOptions {
  /** The limit of open files (`ulimit -n`). */
  readonly openFiles?: number;
  /** A command with its arguments that runs the service, such as a wrapper. */
  readonly within?: readonly string[];
}

/**
 * Starts the service on a free port, for calls to any tool server. It does not inherit the caller's environment. Its answers to `fetch` are compared
 * with `docs/openapi.yaml`.
 */
export async function startService(
  env: Environment = {},
  { openFiles, within = [] }: ProcessOptions = {},
): Promise<RunningService> {
  const { PATH = '' } = process.env;
  const limited = `ulimit -n ${openFiles}; exec "$0" "$@"`;
  const [program, ...args] = [
    ...within,
    ...(openFiles === undefined ? [] : ['sh', '-c', limited]),
    process.execPath,
    ...SERVICE_COMMAND,
  ] as [string, ...string[]];
  const child = spawn(program, args, {
    // No test depends on speed. Other tests check when a busy service refuses requests.
    env: {
      ...{ PATH, PORT: '0', FRONT_END },
      ...{ GATE_ROUTES: 'any', SERVER_IDENTITY: 'any' },
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const log: Record<string, unknown>[] = [];
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>;
      log.push(entry);
      if (entry['msg'] === 'listening') resolve(entry['url'] as string);
    });
    void exited.then(([code]) => reject(new Error(`the service ended with ${code}: ${errors}`)));
  });
  void exited.then(checkAnswersOf(url));
  return {
    url,
    port: Number(new URL(url).port),
    child,
    log,
    post: postTo(url),
    stop: async (signal = 'SIGTERM') => {
      child.kill(signal);
      const [code] = await exited;
      return code;
    },
  };
}

/** Runs the service with an environment that should keep it from starting. */
export async function runToExit(
  env: Environment,
): Promise<{ code: number | null; stderr: string; stdout: string }> {
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, [MAIN, 'serve'], {
    env: { PATH, PORT: '0', FRONT_END, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Before the limit of a test: one that starts although it must not would stay behind.
    ...{ timeout: 150_000, killSignal: 'SIGKILL' },
  });
  let stderr = '';
  let stdout = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr, stdout };
}

/** The value of a metric with exactly these labels, as written: `metricOf(text, 'x{a="1"}')`; 0 if there is none. */
export function metricOf(text: string, series: string): number {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `));
  return line === undefined ? 0 : Number(line.slice(series.length + 1));
}
