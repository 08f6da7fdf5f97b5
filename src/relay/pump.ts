import { startChild, type Ending } from './child.js';
import { Lines, Output, write, type Piece } from './lines.js';
import { idTextOf, MAX_MESSAGE_BYTES, messageOf, readBytes, type Message } from './message.js';
import { Scan } from './scan.js';

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
export function withId(answer: string, idText: () => string): string {
  return answer.startsWith(NO_ID) ? `${NO_ID.slice(0, -4)}${idText()}${answer.slice(NO_ID.length)}` : answer;
}
const NO_ID = '{"jsonrpc":"2.0","id":null';

/**
 * The one way of messages from a client over stdio to a server: reads lines, has each decided on, and sends or answers it. A
 * request that is answered here is answered under its id, also where the line is too long to be read.
 */
export async function pump(
  source: AsyncIterable<Buffer>,
  { hook, server, output }: { readonly hook: Hook; readonly server: ServerEnd; readonly output: Output },
): Promise<void> {
  const lines = new Lines(hook.maxBytes);
  /** Looks for the id of a line that is too long; `null` within one that is answered. */
  let scan: Scan | null = null;
  const take = async (piece: Piece) => {
    if (piece.kind !== 'line') {
      if (piece.kind === 'long') scan = new Scan();
      scan?.push(piece.bytes);
      if (scan === null || (scan.id === null && (piece.kind === 'long' || !piece.ends))) return;
      const { id } = scan;
      scan = null;
      await output.insert(withId(await hook.tooLong(), () => id ?? 'null'));
      return;
    }
    // Pieces are only valid until the next one, and what is sent may be sent once more.
    const line = Buffer.from(piece.bytes);
    if (line.every((byte) => byte <= 0x20)) return;
    const message = messageOf(line, readBytes(line));
    const outcome = await hook.decide(line, message);
    if (outcome.kind === 'send') await server.send(outcome, message, () => hook.decide(line, message));
    else if (outcome.line !== null) await output.insert(withId(outcome.line, () => idTextOf(line)));
  };
  for await (const chunk of source) for (const piece of lines.push(chunk)) await take(piece);
  const rest = lines.end();
  if (rest.length > 0) await take({ kind: 'line', bytes: rest });
  await server.end();
}

/**
 * Runs a program that speaks over standard input and output, in the place of this process: it has its standard error, and gets
 * its signals. Resolves when the program has ended, and everything that it said is written.
 *
 * @param read what the client gets of a line of the server
 * @throws Error if it cannot be started
 */
export async function relayToChild(
  [program = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
  hook: Hook,
  read?: (line: Buffer) => Buffer,
): Promise<Ending> {
  const { child, ended } = await startChild(program, args, env);
  const { stdin: toServer, stdout: fromServer } = child;
  const output = new Output(process.stdout, Math.max(hook.maxBytes, MAX_MESSAGE_BYTES), read);
  const server: ServerEnd = {
    send: async ({ bytes }) => write(toServer, Buffer.concat([bytes, LINE_FEED])),
    end: () => void toServer.end(),
  };
  // The host may end before the child, and the child before the host.
  toServer.on('error', () => process.stdin.destroy());
  pump(process.stdin, { hook, server, output }).catch((error: unknown) => {
    // There is nobody to write to, and the end of the server says why; or nobody hears the client any more.
    if (toServer.destroyed) return;
    console.error(error);
    child.kill();
  });
  try {
    for await (const chunk of fromServer as AsyncIterable<Buffer>) await output.take(chunk);
  } catch (error) {
    // It was closed here, because the server has ended without closing it.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
  await output.end();
  const ending = await ended;
  process.stdin.destroy();
  return ending;
}

const LINE_FEED = Buffer.from('\n');
