import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** What is passed on to the child. The others that can be handled end this process as they would end the child. */
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;

/** How a child has ended: one of the two is not `null`. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * Starts a program that speaks over its standard input and output, in the place of this process: signals to this process go
 * to the program, and its standard error is that of this process.
 *
 * @returns `ended` resolves when it has ended, and has said everything
 * @throws Error if it cannot be started
 */
export async function startChild(command: string, args: readonly string[], env: NodeJS.ProcessEnv) {
  const handlers = SIGNALS.map((signal) => [signal, () => void child.kill(signal)] as const);
  // Before the program: a signal that came between the two would end this process alone.
  for (const [signal, pass] of handlers) process.on(signal, pass);
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  // Where this process ends by itself, the program must not go on without it.
  const kill = () => void child.kill();
  process.once('exit', kill);
  const forget = () => {
    process.off('exit', kill);
    for (const [signal, pass] of handlers) process.off(signal, pass);
  };
  try {
    await once(child, 'spawn');
  } catch (error) {
    forget();
    throw new Error(REASONS[(error as NodeJS.ErrnoException).code ?? ''] ?? (error as Error).message);
  }
  return { child, ended: endingOf(child).finally(forget) };
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such program',
  EACCES: 'it may not be executed',
};

async function endingOf(child: ChildProcess): Promise<Ending> {
  const closed = once(child, 'close');
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  // Programs that it has started may still have its streams. This tells them that nobody speaks to them any more.
  child.stdin?.destroy();
  const timer = setTimeout(() => child.stdout?.destroy(), LEFT_BEHIND_MS);
  await closed;
  clearTimeout(timer);
  return { code, signal };
}

/** So long what a program has left behind may go on speaking. */
const LEFT_BEHIND_MS = 10_000;

/** Ends this process as the child has ended. */
export function endLike({ code, signal }: Ending): void {
  if (signal === null) process.exitCode = code ?? 1;
  else process.kill(process.pid, signal);
}
