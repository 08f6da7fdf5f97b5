import { startChild, type Ending } from './child.js';
import { isJsonObject } from '../protocol/json.js';
import { flushed, Lines, sayTo, type Line, type Say } from './lines.js';
import {
  errorLine,
  idTextOf,
  MAX_MESSAGE_BYTES,
  messageOf,
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

/**
 * What becomes of a message: it is sent, or its client gets an answer, in one line; `null`: it gets none. In an answer with
 * the id `null`, the id of the message takes its place.
 */
export type Outcome = Sent | { readonly kind: 'answer'; readonly line: string | null };

/** What a relay does with the messages of a client over stdio, one after the other, so that none overtakes another. */
export interface Hook {
  /** @param message `null` if the line is not a JSON object */
  decide(line: Buffer, message: Message | null): Promise<Outcome>;
  /** The answer to a line that is too long. */
  tooLong(): Promise<string>;
  /** Looks at a line of the server, and returns what the client gets of it. Default: the line. */
  read?(line: Buffer): Buffer;
  /** Of the longest line that is read. */
  readonly maxBytes: number;
}

/** The way to a server. */
export interface ServerEnd {
  /**
   * Resolves when the next message may follow.
   *
   * @param again decides once more, for a server that asks for the message once more
   */
  send(sent: Sent, message: Message | null, again: () => Promise<Outcome>): Promise<void>;
  /** The client has sent its last message. */
  end(): Promise<void> | void;
}

/** Puts the id of a message into an answer that has none. */
export function withId(answer: string, message: Message | null): string {
  const begin = '{"jsonrpc":"2.0","id":';
  return answer.startsWith(`${begin}null`)
    ? begin + idTextOf(message) + answer.slice(begin.length + 'null'.length)
    : answer;
}

/**
 * The one way of messages from a client over stdio to a server: reads lines, has each decided on, and sends or answers it. A
 * request that is answered here is answered under its id, also where the line is too long to be read.
 */
export async function pump(
  source: AsyncIterable<Buffer>,
  { hook, server, say }: { readonly hook: Hook; readonly server: ServerEnd; readonly say: Say },
): Promise<void> {
  const lines = new Lines(hook.maxBytes);
  const take = async ({ bytes, isTooLong }: Line) => {
    if (isTooLong) return say(withId(await hook.tooLong(), messageOf(bytes, readEnds(bytes))));
    // What is sent may be sent once more, and the line is only valid until the next one.
    const line = Buffer.from(bytes);
    if (line.every((byte) => byte <= 0x20)) return;
    const message = messageOf(line);
    const outcome = await hook.decide(line, message);
    if (outcome.kind === 'send') await server.send(outcome, message, () => hook.decide(line, message));
    else if (outcome.line !== null) await say(withId(outcome.line, message));
  };
  for await (const chunk of source) for (const line of lines.push(chunk)) await take(line);
  for (const line of lines.end()) await take(line);
  await server.end();
}

/**
 * Runs a program that speaks over standard input and output, in the place of this process: it has its standard error, and gets
 * its signals. Resolves when the program has ended, and everything that it said is written.
 *
 * @throws Error if it cannot be started
 */
export async function relayToChild(
  [program = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
  hook: Hook,
): Promise<Ending> {
  const { child, ended } = await startChild(program, args, env);
  const { stdin: toServer, stdout: fromServer } = child;
  const say = sayTo(process.stdout);
  const sayToServer = sayTo(toServer);
  const server: ServerEnd = { send: ({ bytes }) => sayToServer(bytes), end: () => void toServer.end() };
  // The host may end before the child, and the child before the host.
  toServer.on('error', () => process.stdin.destroy());
  pump(process.stdin, { hook, server, say }).catch((error: unknown) => {
    // There is nobody to write to, and the end of the server says why; or nobody hears the client any more.
    if (toServer.destroyed) return;
    console.error(error);
    child.kill();
  });
  const lines = new Lines(MAX_MESSAGE_BYTES);
  const pass = async (found: Iterable<Line>) => {
    for (const { bytes, isTooLong } of found) {
      const line = isTooLong ? tooLongOf(bytes) : bytes;
      if (line !== null) await say(hook.read?.(line) ?? line);
    }
  };
  try {
    for await (const chunk of fromServer as AsyncIterable<Buffer>) await pass(lines.push(chunk));
  } catch (error) {
    // It was closed here, because the server has ended without closing it.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
  await pass(lines.end());
  await flushed(process.stdout);
  const ending = await ended;
  process.stdin.destroy();
  return ending;
}

/** What a client gets instead of a line of the server that is too long: an error, if the line is an answer. */
function tooLongOf(bytes: Buffer): Buffer | null {
  const value = readEnds(bytes);
  const said = `the server said more than ${sizeOf(MAX_MESSAGE_BYTES)} in one message, which is not passed on`;
  console.error(`drs-verify: ${said}`);
  return isJsonObject(value) && !Object.hasOwn(value, 'method') && Object.hasOwn(value, 'id')
    ? Buffer.from(errorLine(JSON.stringify(value['id']), TRANSPORT_ERROR, said))
    : null;
}
