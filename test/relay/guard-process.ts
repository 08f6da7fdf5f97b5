import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { MAIN } from '../cli/drs.js';
import { linesOf } from '../support/child.js';
import { eventually } from '../support/eventually.js';

export const fileOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
export const ECHO = [process.execPath, fileOf('echo-server.mjs')];

/** A JSON-RPC message, as far as tests look at it. */
export interface Said {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly line: string };
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data: { readonly code: string };
  };
}

/** A guard in front of a server over stdio. */
export interface GuardProcess {
  readonly process: ChildProcess;
  /** Lines of standard output that have come; parsed, if they are JSON. */
  readonly lines: string[];
  readonly stderr: () => string;
  /** Writes a line, or a message as one. */
  readonly say: (message: string | Buffer | object) => void;
  /** Waits for so many lines in all. */
  readonly heard: (count: number) => Promise<Said[]>;
  /** Its exit code or signal. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

const started: ChildProcess[] = [];
// Also where a test fails before it has ended its guard.
afterAll(() => {
  for (const child of started) child.kill('SIGKILL');
});

export function startGuard(
  args: readonly string[],
  server: readonly string[] = ECHO,
  env: Readonly<Record<string, string>> = {},
): GuardProcess {
  const child = spawn(process.execPath, [MAIN, 'guard', ...args, '--', ...server], {
    env: { PATH: process.env['PATH'], ...env },
  });
  started.push(child);
  const lines: string[] = [];
  let stderr = '';
  void (async () => {
    for await (const line of linesOf(child.stdout)) lines.push(line);
  })();
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on('error', () => undefined);
  return {
    process: child,
    lines,
    stderr: () => stderr,
    say: (message) => {
      const isText = typeof message === 'string' || Buffer.isBuffer(message);
      child.stdin.write(isText ? message : JSON.stringify(message));
      child.stdin.write('\n');
    },
    heard: async (count) => {
      await eventually(() => {
        if (lines.length < count) throw new Error(`${lines.length} lines of ${count}; ${stderr}`);
      });
      return lines.slice(0, count).map((line) => (line.startsWith('{') ? (JSON.parse(line) as Said) : {}));
    },
    ended: once(child, 'close').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals | null),
  };
}
