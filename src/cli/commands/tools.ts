import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import type { Command } from 'commander';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { httpEnd } from '../../relay/http-end.js';
import { destinationOf, httpTarget } from '../../relay/http-target.js';
import { linesOf, sayTo, type Say } from '../../relay/lines.js';
import { MAX_MESSAGE_BYTES, messageOf } from '../../relay/message.js';
import { BUILD } from '../../service/observe/build-info.js';
import { CommandError } from '../command-error.js';
import { printable, showJson } from '../terminal.js';

export const help = `
Examples:
  npx drs-verify tools -- npx -y @modelcontextprotocol/server-filesystem "$PWD" > tools.jsonl
  npx drs-verify tools --from https://tools.example/mcp > tools.jsonl`;

export function define(command: Command): void {
  command
    .description(
      'Prints lines to begin a file of tools with (TOOLS_FILE, --tools), from the list of an MCP server. Read, correct and complete them: a tool may say anything of itself.',
    )
    .argument('[command...]', 'an MCP server that speaks over standard input and output')
    .passThroughOptions()
    .option('--from <url>', 'an MCP server that speaks Streamable HTTP')
    .action(async (program: readonly string[], { from }: { readonly from?: string }) => {
      if ((from === undefined) === (program.length === 0))
        throw new CommandError(
          'there is neither --from nor a command, or both',
          'name one server: --from <url>, or its command behind --',
        );
      const connect = from === undefined ? childEnd(program) : urlEnd(from);
      const tools = await listTools(connect).catch((error: unknown) => {
        throw new CommandError(
          `cannot list the tools: ${(error as Error).message}`,
          'check that it is an MCP server, and runs',
        );
      });
      const readers = tools.filter(
        ({ annotations: hints }) => isJsonObject(hints) && hints['readOnlyHint'] === true,
      );
      // What only says that it reads is left open: without a line of a person, a policy that forbids writing refuses it.
      const lines = tools.map((tool) => ({
        tool: tool['name'],
        ...(!readers.includes(tool) && { writes: true }),
      }));
      for (const line of [...lines, { tool: '*', writes: true }]) process.stdout.write(`${showJson(line)}\n`);
      const names = readers.map(({ name }) => showJson(name ?? '')).join(', ');
      process.stderr.write(
        'These are the names that the server gives: say of each tool what you know (docs/spec/tools.md).\n' +
          (names === ''
            ? ''
            : `Of these the server says that they only read; add "writes":false where it is so: ${names}\n`),
      );
    });
}

/** Connects a server, whose lines go to `say`; `fail` is told why there will be no more. */
type Connect = (
  say: Say,
  fail: (why: unknown) => void,
) => { readonly send: (message: Buffer) => Promise<void>; readonly close: () => unknown };

const MAX_WAIT_MS = 30_000;
const MAX_PAGES = 100;

/** Asks a server for all its tools. @throws Error if it does not answer as MCP says */
async function listTools(connect: Connect): Promise<JsonObject[]> {
  const answers = new EventEmitter();
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, AbortSignal.timeout(MAX_WAIT_MS)]);
  const server = connect(
    (line) => {
      const { value, method } = messageOf({ bytes: Buffer.from(line), isTooLong: false });
      // What the server asks, and says besides, is not for this.
      if (method === undefined) answers.emit(`answer ${JSON.stringify(value['id'])}`, value);
      return Promise.resolve();
    },
    (why) => failed.abort(why),
  );
  const say = (message: object) => server.send(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message })));
  const ask = async (id: number, method: string, params: object): Promise<JsonObject> => {
    const answered = once(answers, `answer ${id}`, { signal }) as Promise<[JsonObject]>;
    void say({ id, method, params });
    const [{ result, error }] = await answered;
    if (isJsonObject(result)) return result;
    throw new Error(`${method}: ${showJson(error ?? null).slice(0, 200)}`);
  };
  try {
    const clientInfo = { name: 'drs-verify', version: BUILD.version };
    await ask(0, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
    await say({ method: 'notifications/initialized' });
    const found: JsonObject[] = [];
    let params = {};
    for (let page = 1; page <= MAX_PAGES; page++) {
      const { tools, nextCursor: cursor } = await ask(page, 'tools/list', params);
      if (Array.isArray(tools)) found.push(...tools.filter(isJsonObject));
      if (typeof cursor !== 'string') return found.filter(({ name }) => typeof name === 'string');
      params = { cursor };
    }
    throw new Error(`its list has more than ${MAX_PAGES} pages`);
  } catch (error) {
    throw signal.aborted ? (signal.reason as Error) : error;
  } finally {
    await server.close();
  }
}

/** A server at an address. What it refuses comes as an error of JSON-RPC. */
const urlEnd =
  (from: string): Connect =>
  (say) => {
    const target = httpTarget(destinationOf(from, 'mcp', { isLocal: true }).url);
    const { send, end } = httpEnd(target, {}, say, (note) => process.stderr.write(`${printable(note)}\n`));
    const never = () => Promise.resolve(null);
    return {
      send: (bytes) => send({ ...messageOf({ bytes, isTooLong: false }), body: bytes }, never),
      close: () => end(0),
    };
  };

const childEnd =
  ([program = '', ...args]: readonly string[]): Connect =>
  (say, fail) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.on('error', fail).on('close', () => fail(new Error('the server has ended')));
    child.stdin.on('error', () => undefined);
    const listen = async () => {
      for await (const lines of linesOf(child.stdout, MAX_MESSAGE_BYTES))
        for (const { bytes } of lines) await say(bytes);
    };
    listen().catch(fail);
    return { send: sayTo(child.stdin), close: () => child.kill() };
  };
