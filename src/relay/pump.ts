import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../gate/carriers.js';
import { linesOf, sayTo, write, type Say } from './lines.js';
import { errorLine, MAX_MESSAGE_BYTES, messageOf, sizeOf, TRANSPORT_ERROR, type Message } from './message.js';

export interface Sent extends Message {
  readonly body: Buffer;
  /** The bundle in it, if it was put in here. */
  readonly bundle?: string;
}

/** The header for a bundle, if there is one that is not too long for it. */
export const bundleHeader = (bundle = ''): Record<string, string> =>
  bundle !== '' && bundle.length <= MAX_HEADER_BUNDLE ? { [BUNDLE_HEADER]: bundle } : {};

/** What becomes of a message: it is sent, or its client gets an answer, in one line; `null`: it gets none. */
export type Decided = Sent | string | null;

/** What a relay does with the messages of a client over stdio, one after the other, so that none overtakes another. */
export interface Hook {
  decide(message: Message): Promise<Decided>;
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
export type Send = (sent: Sent, again: () => Promise<Decided>) => Promise<void>;

/**
 * The one way of messages from a client over stdio to a server: reads lines, has each decided on, and sends or answers it,
 * until the client ends. A request that is answered here is answered under its id, also where the line is too long to be read.
 */
export async function pump(source: AsyncIterable<Buffer>, hook: Hook, send: Send, say: Say): Promise<void> {
  for await (const lines of linesOf(source, hook.maxBytes))
    for (const line of lines) {
      if (!line.isTooLong && line.bytes.every((byte) => byte <= 0x20)) continue;
      const message = messageOf(line);
      const outcome = await hook.decide(message);
      if (typeof outcome === 'string') await say(outcome);
      else if (outcome !== null) await send(outcome, () => hook.decide(message));
    }
}

/** What is passed on to the child. The others that can be handled end this process as they would end the child. */
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;

const TOO_LONG = `the server said more than ${sizeOf(MAX_MESSAGE_BYTES)} in one message, which is not passed on`;

/** How long a program that the child left behind may go on speaking. */
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
  const { stdin: toServer, stdout: fromServer } = child;
  // Where this process ends by itself, the program must not go on without it.
  process.once('exit', () => void child.kill());
  let ended;
  try {
    await once(child, 'spawn');
    const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
    child.once('exit', () => {
      // Programs that it has started may still have its streams. This tells them that nobody speaks to them any more.
      toServer.destroy();
      setTimeout(() => fromServer.destroy(), LEFT_BEHIND_MS).unref();
    });
    const [say, sayToServer] = [sayTo(process.stdout), sayTo(toServer)];
    // The host may end before the child, and the child before the host.
    toServer.on('error', () => process.stdin.destroy());
    const pumped = pump(process.stdin, hook, ({ body }) => sayToServer(body), say);
    void pumped.then(
      () => toServer.end(),
      (error: unknown) => {
        // There is nobody to write to, and the end of the server says why.
        if (!toServer.destroyed) throw error;
      },
    );
    try {
      for await (const lines of linesOf(fromServer, MAX_MESSAGE_BYTES))
        for (const line of lines) {
          let heard = line.bytes;
          if (line.isTooLong) {
            console.error(`drs-verify: ${TOO_LONG}`);
            const { method, value } = messageOf(line);
            // If the line is an answer, its client gets an error.
            if (method !== undefined || value['id'] === undefined) continue;
            const error = { code: TRANSPORT_ERROR, message: TOO_LONG };
            heard = Buffer.from(errorLine(JSON.stringify(value['id']), error));
          }
          hook.hear?.(heard);
          await say(heard);
        }
    } catch (error) {
      // It was closed here, because the server has ended without closing it.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
    }
    // Also what the other direction has said.
    await write(process.stdout, '');
    ended = await closed;
  } finally {
    process.stdin.destroy();
    for (const signal of SIGNALS) process.off(signal, pass);
  }
  const [code, signal] = ended;
  if (signal === null) process.exitCode = code ?? 1;
  else process.kill(process.pid, signal);
}
