import type { Writable } from 'node:stream';
import { endLike, startChild, type StdioChild } from '../../stdio/child.js';
import { write } from '../../stdio/write.js';
import { CommandError } from '../command-error.js';
import { decodeUtf8 } from '#platform';
import { Output, readLines, type Line } from './lines.js';
import type { McpSigner, Outcome } from './mcp-signer.js';
import { errorLine, INVALID_REQUEST, MAX_MESSAGE_BYTES } from './message.js';

/**
 * Runs an MCP server that speaks over standard input and output, and signs what goes to it. The child has this process'
 * standard error. When it ends, this process ends in the same way: with its exit code, or by its signal.
 *
 * @param command the program and its arguments
 */
export async function relayToChild(command: readonly string[], signer: McpSigner): Promise<void> {
  const [program = '', ...args] = command;
  let child: StdioChild;
  try {
    child = await startChild(program, args, process.env);
  } catch (error) {
    throw new CommandError(
      `cannot start ${program}: ${(error as Error).message}`,
      'check the command after --, as you would type it in this folder',
    );
  }
  const { fromServer, toServer } = child.streams;
  const output = new Output(process.stdout);
  // The host may end before the child, and the child before the host.
  toServer.on('error', () => undefined);
  // If the host's end of the pipe breaks, the child is told that its input has ended.
  void send(toServer, output, signer).catch((error: unknown) => {
    console.error(error);
    toServer.end();
  });
  const answers = copy(fromServer, output).catch(() => undefined);
  const ending = await child.ended;
  await answers;
  await output.end();
  process.stdin.destroy();
  endLike(ending);
}

async function copy(source: AsyncIterable<Buffer>, output: Output): Promise<void> {
  for await (const chunk of source) await output.forward(chunk);
}

async function send(stdin: Writable, output: Output, signer: McpSigner): Promise<void> {
  for await (const line of readLines(process.stdin, MAX_MESSAGE_BYTES)) {
    const outcome = await decide(line, signer);
    if (outcome.kind === 'refused') await output.insert(outcome.answer);
    else await write(stdin, outcome.bytes);
  }
  stdin.end();
}

/** What goes to the child for a line: the line as it is, unless it has a request to sign. */
async function decide(
  line: Line,
  signer: McpSigner,
): Promise<{ readonly kind: 'send'; readonly bytes: Buffer } | Extract<Outcome, { kind: 'refused' }>> {
  if (line.kind === 'too long') {
    const message = `a message has more than ${MAX_MESSAGE_BYTES} bytes: it was not sent`;
    return { kind: 'refused', answer: errorLine('null', INVALID_REQUEST, message) };
  }
  const outcome = await signer.signText(decodeUtf8(line.bytes) ?? '');
  if (outcome.kind === 'refused') return outcome;
  const bytes = outcome.kind === 'pass' ? line.bytes : Buffer.from(outcome.text);
  return { kind: 'send', bytes: Buffer.concat([bytes, Buffer.from(line.end)]) };
}
