import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { CommandError } from '../command-error.js';
import { decodeUtf8 } from '#platform';
import { Output, readLines, splitEnd, write, type Line } from './lines.js';
import type { McpSigner, Outcome } from './mcp-signer.js';
import { errorLine, INVALID_REQUEST, MAX_MESSAGE_BYTES } from './message.js';

/** Signals that are handed to the child. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/** How long to wait for the rest of the output of a child that has ended: a process of its own may hold it open. */
const LAST_OUTPUT_MS = 1000;

/**
 * Runs an MCP server that speaks over standard input and output, and signs what goes to it. The child has this process'
 * standard error. When it ends, this process ends in the same way: with its exit code, or by its signal.
 *
 * @param command the program and its arguments
 */
export async function relayToChild(command: readonly string[], signer: McpSigner): Promise<void> {
  const [program = '', ...args] = command;
  // A signal that comes before its handler would end this process and leave the child behind.
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal));
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new CommandError(
      `cannot start ${program}: ${(error as Error).message}`,
      'check the command after --, as you would type it in this folder',
    );
  }
  const output = new Output(process.stdout);
  // The host may end before the child, and the child before the host.
  child.stdin.on('error', () => undefined);
  const answers = copy(child.stdout, output);
  const ended = once(child, 'exit');
  // If the host's end of the pipe breaks, the child is told that its input has ended.
  void send(child.stdin, output, signer).catch((error: unknown) => {
    console.error(error);
    child.stdin.end();
  });
  await ended;
  await Promise.race([answers.catch(() => undefined), delay(LAST_OUTPUT_MS)]);
  await output.end();
  endLike(child);
}

async function copy(source: AsyncIterable<Buffer>, output: Output): Promise<void> {
  for await (const chunk of source) await output.forward(chunk);
}

async function send(stdin: Writable, output: Output, signer: McpSigner): Promise<void> {
  for await (const line of readLines(process.stdin, MAX_MESSAGE_BYTES)) {
    const outcome = decide(line, signer);
    if (outcome.kind === 'refused') await output.insert(outcome.answer);
    else await write(stdin, outcome.bytes);
  }
  stdin.end();
}

/** What goes to the child for a line: the line as it is, unless it has a request to sign. */
function decide(
  line: Line,
  signer: McpSigner,
): { readonly kind: 'send'; readonly bytes: Buffer } | Extract<Outcome, { kind: 'refused' }> {
  if (line.kind === 'too long') {
    const message = `a message has more than ${MAX_MESSAGE_BYTES} bytes: it was not sent`;
    return { kind: 'refused', answer: errorLine('null', INVALID_REQUEST, message) };
  }
  const { content, end } = splitEnd(line.bytes);
  const outcome = signer.signText(decodeUtf8(content) ?? '');
  if (outcome.kind === 'refused') return outcome;
  if (outcome.kind === 'pass') return { kind: 'send', bytes: line.bytes };
  return { kind: 'send', bytes: Buffer.concat([Buffer.from(outcome.text), end]) };
}

/** Ends this process as a child has ended. */
function endLike({ exitCode, signalCode }: ChildProcess): void {
  if (signalCode === null) process.exit(exitCode ?? 0);
  for (const signal of SIGNALS) process.removeAllListeners(signal);
  process.kill(process.pid, signalCode);
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
