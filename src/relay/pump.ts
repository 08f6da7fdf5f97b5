import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { isJsonObject } from '../protocol/json.js';
import { linesOf, sayTo, write, type Line, type Say } from './lines.js';
import {
  errorLine,
  MAX_MESSAGE_BYTES,
  messageOf,
  readBytes,
  readEnds,
  sizeOf,
  TRANSPORT_ERROR,
  type Message,
} from './message.js';

/** A message for the server. */
export interface Sent {
  readonly kind: 'send';
  readonly bytes: Buffer;
  /** The bundle in it, if it was put in here. */
  readonly bundle?: string;
}

/** What becomes of a message: it is sent, or its client gets an answer, in one line; `null`: it gets none. */
export type Outcome = Sent | { readonly kind: 'answer'; readonly line: string | null };

/** What a relay does with the messages of a client over stdio, one after the other, so that none overtakes another. */
export interface Hook {
  /**
   * @param message `null` if the line is not a JSON object
   * @param isTooLong whether `line` and `message` have only what was found at the ends, so that it must not be sent
   */
  decide(line: Buffer, message: Message | null, isTooLong?: boolean): Promise<Outcome>;
  /** Looks at a line of the server, before the client gets it. */
  hear?(line: Buffer): void;
  /** Of the longest line that is read. */
  readonly maxBytes: number;
}

/**
 * Sends a message to a server. Resolves when the next one may follow.
 *
 * @param again decides once more, for a server that asks for the message once more
 */
export type Send = (sent: Sent, message: Message | null, again: () => Promise<Outcome>) => Promise<void>;

/**
 * The one way of messages from a client over stdio to a server: reads lines, has each decided on, and sends or answers it,
 * until the client ends. A request that is answered here is answered under its id, also where the line is too long to be read.
 */
export async function pump(source: AsyncIterable<Buffer>, hook: Hook, send: Send, say: Say): Promise<void> {
  const take = async ({ bytes: line, isTooLong }: Line) => {
    if (!isTooLong && line.every((byte) => byte <= 0x20)) return;
    const message = messageOf(line, isTooLong ? readEnds(line) : readBytes(line));
    const decide = () => hook.decide(line, message, isTooLong);
    const outcome = await decide();
    if (outcome.kind === 'send') await send(outcome, message, decide);
    else if (outcome.line !== null) await say(outcome.line);
  };
  for await (const lines of linesOf(source, hook.maxBytes)) for (const line of lines) await take(line);
}

/** What is passed on to the child. The others that can be handled end this process as they would end the child. */
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;

/** So long what a program has left behind may go on speaking. */
const LEFT_BEHIND_MS = 10_000;

/**
 * Runs a program that speaks over standard input and output, in the place of this process: it has its standard error, and gets
 * its signals, and ends as it has ended, when everything that it said is written.
 *
 * @throws Error if it cannot be started
 */
export async function relayToChild(
  [program = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
  hook: Hook,
): Promise<void> {
  const pass = (signal: NodeJS.Signals) => void child.kill(signal);
  // Before the program: a signal that came between the two would end this process alone.
  for (const signal of SIGNALS) process.on(signal, pass);
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  // Where this process ends by itself, the program must not go on without it.
  process.once('exit', () => void child.kill());
  let ended;
  try {
    await once(child, 'spawn').catch((error: unknown) => {
      const { code, message } = error as NodeJS.ErrnoException;
      throw new Error(code === 'ENOENT' ? 'there is no such program' : message);
    });
    child.once('exit', () => {
      // Programs that it has started may still have its streams. This tells them that nobody speaks to them any more.
      child.stdin.destroy();
      setTimeout(() => child.stdout.destroy(), LEFT_BEHIND_MS).unref();
    });
    const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
    await relayTo(child, hook);
    ended = await closed;
  } finally {
    process.stdin.destroy();
    for (const signal of SIGNALS) process.off(signal, pass);
  }
  const [code, signal] = ended;
  if (signal === null) process.exitCode = code ?? 1;
  else process.kill(process.pid, signal);
}

async function relayTo(child: ChildProcessByStdio<Writable, Readable, null>, hook: Hook): Promise<void> {
  const { stdin: toServer, stdout: fromServer } = child;
  const [say, sayToServer] = [sayTo(process.stdout), sayTo(toServer)];
  // The host may end before the child, and the child before the host.
  toServer.on('error', () => process.stdin.destroy());
  const pumped = pump(process.stdin, hook, ({ bytes }) => sayToServer(bytes), say);
  pumped
    .then(() => toServer.end())
    .catch((error: unknown) => {
      // There is nobody to write to, and the end of the server says why; or nobody hears the client any more.
      if (toServer.destroyed) return;
      console.error(error);
      child.kill();
    });
  try {
    for await (const lines of linesOf(fromServer, MAX_MESSAGE_BYTES))
      for (const { bytes, isTooLong } of lines) {
        const line = isTooLong ? tooLongOf(bytes) : bytes;
        if (line === null) continue;
        hook.hear?.(line);
        await say(line);
      }
  } catch (error) {
    // It was closed here, because the server has ended without closing it.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
  // Also what the other direction has said.
  await write(process.stdout, '');
}

/** What a client gets instead of a line of the server that is too long: an error, if the line is an answer. */
function tooLongOf(bytes: Buffer): Buffer | null {
  const value = readEnds(bytes);
  const said = `the server said more than ${sizeOf(MAX_MESSAGE_BYTES)} in one message, which is not passed on`;
  console.error(`drs-verify: ${said}`);
  return isJsonObject(value) && !Object.hasOwn(value, 'method') && Object.hasOwn(value, 'id')
    ? Buffer.from(errorLine(JSON.stringify(value['id']), { code: TRANSPORT_ERROR, message: said }))
    : null;
}
