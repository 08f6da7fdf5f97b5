import { fork, spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { ended } from '../support/child.js';

export const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The exit code and output of a command. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What `command-host.mjs` runs. */
interface CommandLine {
  readonly directory: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: string | Buffer;
}

/** Environment variables on top of a bare environment, and what standard input holds. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Buffer;
}

/** A directory of its own, in which the compiled `drs` runs. */
export class Workplace {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** Runs a command line in the process that all share, see `command-host.mjs`. */
  drs(args: readonly string[], { env = {}, stdin = '' }: RunOptions = {}): Promise<Outcome> {
    return runInHost({ directory: this.directory, args, env: bareEnvironment(env), stdin });
  }

  /** Runs a command line in a process of its own. */
  async drsAlone(args: readonly string[], { env = {}, stdin = '' }: RunOptions = {}): Promise<Outcome> {
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: this.directory,
      env: bareEnvironment(env),
    });
    // A command that does not read its input may end before it is written.
    child.stdin.on('error', () => undefined).end(stdin);
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code: child.exitCode, stdout, stderr };
  }

  /** Runs a command that must succeed. */
  async done(...args: string[]): Promise<Outcome> {
    const outcome = await this.drs(args);
    if (outcome.code !== 0) throw new Error(`drs ${args.join(' ')}: ${outcome.code ?? ''} ${outcome.stderr}`);
    return outcome;
  }

  path(name: string): string {
    return path.join(this.directory, name);
  }

  read(name: string): Promise<string> {
    return readFile(this.path(name), 'utf8');
  }

  write(name: string, content: string | Buffer): Promise<void> {
    return writeFile(this.path(name), content);
  }
}

let host: ChildProcess | null = null;
let lines = 0;
/** Less than a test may take: what never ends is named, and its test alone fails. */
const MAX_MILLISECONDS = 120_000;

async function runInHost(line: CommandLine): Promise<Outcome> {
  host ??= startHost();
  const [id, child] = [++lines, host];
  return new Promise((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`drs-verify ${line.args.join(' ')}: ${what}`));
    const onEnd = () => {
      clearTimeout(limit);
      fail('the process that runs command lines has ended');
    };
    const limit = setTimeout(() => {
      fail(`it has not ended in ${MAX_MILLISECONDS} ms`);
      // Those behind it would wait for it, and those of later tests.
      child.kill('SIGKILL');
    }, MAX_MILLISECONDS);
    const onMessage = (answer: { id: number; outcome: Outcome }) => {
      if (answer.id !== id) return;
      clearTimeout(limit);
      child.off('message', onMessage).off('exit', onEnd);
      resolve(answer.outcome);
    };
    child.on('message', onMessage).once('exit', onEnd);
    child.send({ ...line, id });
  });
}

/** It ends with this process. */
function startHost(): ChildProcess {
  const file = fileURLToPath(new URL('command-host.mjs', import.meta.url));
  const child = fork(file, { env: bareEnvironment({}), execArgv: [], serialization: 'advanced' });
  child.once('exit', () => (host = null));
  child.unref();
  child.channel?.unref();
  return child;
}

/** A new directory. */
export async function createWorkplace(): Promise<Workplace> {
  return new Workplace(await mkdtemp(path.join(tmpdir(), 'drs-cli-')));
}

/** A command line without quotes, as its words. */
export const words = (line: string): string[] => line.split(' ');

/** Alice, bot and helper have keys; `helper.jwt` is a chain of two; `bundle.json` and `args.json` are a call. */
export async function createChain(): Promise<Workplace> {
  const work = await createWorkplace();
  await Promise.all(['alice', 'bot', 'helper'].map((name) => work.done('keygen', '-o', `${name}.key`)));
  const root = ['issue', '--key', 'alice.key', '--to', 'bot.pub', '--tool', 'search', '--tool', 'fetch'];
  await work.done(...root, '--max-cost', '5', '--status-index', '7', '--yes', '-o', 'root.jwt');
  const sub = words('delegate --key bot.key --chain root.jwt --to helper.pub --tool search');
  await work.done(...sub, '--max-cost', '1', '-o', 'helper.jwt');
  await work.write('args.json', '{"tool":"search","query":"tea","estimated_cost_usd":0.5}');
  await work.done(...INVOKE, '--args', '@args.json', '-o', 'bundle.json');
  return work;
}

export const INVOKE = [
  'invoke',
  '--key',
  'helper.key',
  '--chain',
  'helper.jwt',
  '--tool-server',
  'https://tools.example',
] as const;

/** A running `drs serve`. */
export interface RunningService {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts the compiled service on a free port. */
export async function startService(env: Readonly<Record<string, string>> = {}): Promise<RunningService> {
  const child = spawn(process.execPath, [MAIN, 'serve'], {
    env: bareEnvironment({ PORT: '0', WORKER_THREADS: '0', ...env }),
  });
  const url = await listeningUrl(child);
  const stop = async () => {
    child.kill('SIGTERM');
    await ended(child);
  };
  return { url, stop };
}

async function listeningUrl(child: ChildProcessWithoutNullStreams): Promise<string> {
  const errors = text(child.stderr);
  for await (const line of createInterface({ input: child.stdout })) {
    const { msg, url } = JSON.parse(line) as { msg: string; url: string };
    if (msg !== 'listening') continue;
    child.stdout.resume();
    return url;
  }
  throw new Error(`the service did not start: ${await errors}`);
}

/** The environment of commands, without any configuration of the machine that runs the tests. */
function bareEnvironment(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], ...env };
}
