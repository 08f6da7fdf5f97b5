import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { httpEnd } from '../../relay/http-end.js';
import { destinationOf, httpTarget } from '../../relay/http-target.js';
import { linesOf, sayTo, type Say } from '../../relay/lines.js';
import { MAX_MESSAGE_BYTES, messageOf } from '../../relay/message.js';
import { BUILD } from '../../service/observe/build-info.js';
import { CommandError, refuseWrong } from '../command-error.js';
import { printable, printableJson } from '../terminal.js';

/** Adds the options of `drs-verify tools`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Prints lines to begin a file of tools with (TOOLS_FILE, --tools), from the list of an MCP server. Read, correct and complete them: a tool may say anything of itself.',
    )
    .argument('[command...]', 'an MCP server that speaks over standard input and output')
    .passThroughOptions()
    .option('--from <url>', 'an MCP server that speaks Streamable HTTP')
    .addHelpText(
      'after',
      `
Examples:
  npx drs-verify tools -- npx -y @modelcontextprotocol/server-filesystem "$PWD" > tools.jsonl
  npx drs-verify tools --from https://tools.example/mcp > tools.jsonl`,
    )
    .action(async (program: readonly string[], { from }: { readonly from?: string }) => {
      refuseWrong([
        [
          (from === undefined) === (program.length === 0),
          'there is neither --from nor a command, or both',
          'name one server: --from <url>, or its command behind --',
        ],
      ]);
      const tools = await listTools(from === undefined ? childEnd(program) : urlEnd(from)).catch(
        (error: unknown) => {
          throw new CommandError(
            `cannot list the tools: ${(error as Error).message}`,
            'check that it is an MCP server, and runs',
          );
        },
      );
      const readers = tools.filter(
        ({ annotations: hints }) => isJsonObject(hints) && hints['readOnlyHint'] === true,
      );
      // What only says that it reads is left open: without a line of a person, a policy that forbids writing refuses it.
      const lines = tools.map((tool) => ({
        tool: tool['name'],
        ...(!readers.includes(tool) && { writes: true }),
      }));
      for (const line of [...lines, { tool: '*', writes: true }])
        process.stdout.write(`${printableJson(line)}\n`);
      const names = readers.map(({ name }) => printableJson(name ?? '')).join(', ');
      process.stderr.write(
        'These are the names that the server gives: say of each tool what you know (docs/spec/tools.md).\n' +
          (names === ''
            ? ''
            : `Of these the server says that they only read; add "writes":false where it is so: ${names}\n`),
      );
    });
}

/** A server that was connected: what it says goes to `say`. */
type Connect = (say: Say) => {
  readonly send: (message: Buffer) => Promise<void>;
  readonly close: () => unknown;
  /** Rejects when nothing more can come. */
  readonly failed: Promise<never>;
};

const MAX_WAIT_MS = 30_000;
const MAX_PAGES = 100;

/** Asks a server for all its tools. @throws Error if it does not answer as MCP says */
async function listTools(connect: Connect): Promise<JsonObject[]> {
  let onAnswer: (answer: JsonObject) => void = () => undefined;
  const { send, close, failed } = connect((line) => {
    const { value } = messageOf({ bytes: Buffer.from(line), isTooLong: false });
    onAnswer(value);
    return Promise.resolve();
  });
  const say = (message: object) => send(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message })));
  const patience = new AbortController();
  const late = delay(MAX_WAIT_MS, null, { signal: patience.signal }).then(() => {
    throw new Error(`no answer within ${MAX_WAIT_MS / 1000} seconds`);
  });
  late.catch(() => undefined);
  const ask = async (id: number, method: string, params: object): Promise<JsonObject> => {
    const answered = new Promise<JsonObject>((resolve) => {
      // What the server says besides, and asks, is not for this.
      onAnswer = (answer) => {
        if (answer['id'] === id && answer['method'] === undefined) resolve(answer);
      };
    });
    void say({ id, method, params });
    const { result, error } = await Promise.race([answered, failed, late]);
    if (isJsonObject(result)) return result;
    throw new Error(`${method}: ${printableJson(error ?? null).slice(0, 200)}`);
  };
  try {
    const clientInfo = { name: 'drs-verify', version: BUILD.version };
    await ask(0, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
    await say({ method: 'notifications/initialized' });
    const found: JsonObject[] = [];
    let cursor: JsonValue | undefined;
    for (let page = 1; page <= MAX_PAGES; page++) {
      const { tools, nextCursor } = await ask(page, 'tools/list', cursor === undefined ? {} : { cursor });
      const isNamed = (tool: JsonValue): tool is JsonObject =>
        isJsonObject(tool) && typeof tool['name'] === 'string';
      if (Array.isArray(tools)) found.push(...tools.filter(isNamed));
      if (typeof nextCursor !== 'string') return found;
      cursor = nextCursor;
    }
    throw new Error(`its list has more than ${MAX_PAGES} pages`);
  } finally {
    patience.abort();
    await close();
  }
}

/** A server at an address. */
const urlEnd =
  (from: string): Connect =>
  (say) => {
    const { url } = destinationOf(from, 'mcp', { isLocal: true });
    const { send, end } = httpEnd(httpTarget(url), {}, say, (note) =>
      process.stderr.write(`${printable(note)}\n`),
    );
    return {
      // What a server refuses comes as an error of JSON-RPC.
      send: (bytes) =>
        send({ ...messageOf({ bytes, isTooLong: false }), body: bytes }, () => Promise.resolve(null)),
      close: () => end(0),
      failed: new Promise(() => undefined),
    };
  };

/** A server that is started here. */
const childEnd =
  ([program = '', ...args]: readonly string[]): Connect =>
  (say) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => undefined);
    const ended = once(child, 'close');
    const failed = (async (): Promise<never> => {
      for await (const lines of linesOf(child.stdout, MAX_MESSAGE_BYTES))
        for (const { bytes, isTooLong } of lines) if (!isTooLong) await say(bytes);
      await ended;
      throw new Error('the server has ended');
    })();
    const cannotStart = once(child, 'error').then(([error]) => {
      throw error as Error;
    });
    const either = Promise.race([failed, cannotStart]);
    either.catch(() => undefined);
    ended.catch(() => undefined);
    return { send: sayTo(child.stdin), close: () => child.kill(), failed: either };
  };
