import { appendFileSync } from 'node:fs';
import path from 'node:path';
import { Option, type Command } from 'commander';
import { decodeBundle } from '../../issue/index.js';
import { digestOf } from '../../protocol/jwt.js';
import { httpEnd } from '../../relay/http-end.js';
import { destinationOf, httpTarget, OWN_HEADERS } from '../../relay/http-target.js';
import { sayTo, write } from '../../relay/lines.js';
import { pump, relayToChild } from '../../relay/pump.js';
import { mcpSigner, openDelegations, type SignCall } from '../../relay/sign.js';
import type { ListenerParts } from '../../relay/sign-http.js';
import { printableUrl } from '../../revocation/printable-url.js';
import { callOf, INSTANCE, printableMessage, readCall } from '../../service/observe/logs/verdict-logs.js';
import { readChainFile, readToolsFile } from '../files.js';
import { CommandError, refuseWrong } from '../command-error.js';
import { addKeyOptions, readSigner, type KeyOptions } from '../key-file.js';
import { list } from '../options.js';
import { readRootNames, type NameOf } from '../agreement.js';
import { printable } from '../terminal.js';

type OfPort = 'listenOnNetwork' | 'protocol' | 'allowHost' | 'allowOrigin' | 'allowAddress';

interface SignOptions extends KeyOptions, Pick<ListenerParts, OfPort> {
  readonly passphraseFile?: string;
  readonly keyOfGroup?: true;
  readonly chain: readonly string[];
  readonly to?: string;
  readonly toEnv?: string;
  readonly toolServer?: string;
  readonly unsigned: readonly string[];
  readonly record?: string;
  readonly tools?: string;
  readonly header: readonly string[];
  readonly headerEnv: readonly string[];
  readonly listen?: string;
}

export const help = `
Chain files are read for each call. With --listen, every program and user of this machine that reaches the port
can call as this agent.

Examples:
  npx drs-verify sign --key bot.key --chain root.jwt --to https://tools.example/mcp
  npx drs-verify sign --key bot.key --chain root.jwt --tool-server https://files.example -- node a-server.js /data
  npx drs-verify sign --key bot.key --chain root.jwt --to https://tools.example/mcp --listen 127.0.0.1:7070
  npx drs-verify sign --key bot.key --chain root.jwt --to https://agent.example --listen 127.0.0.1:7071 --protocol a2a`;

export function define(command: Command): void {
  command
    .description(
      'Stands between an MCP host and an MCP server, or an A2A client and an agent, and signs each request that the server checks. All else passes as it is. What no delegation allows is not sent: the host gets an error that says what to do.',
    )
    .argument(
      '[command...]',
      'an MCP server that speaks over standard input and output, with its own options',
    )
    .passThroughOptions();
  addKeyOptions(command)
    .addOption(
      list(
        '--chain <file>',
        'a chain for this key; repeat it for several: the first that allows a call is used',
      ),
    )
    .option('--to <url>', 'an MCP server that speaks Streamable HTTP; with --listen also an A2A agent')
    .option('--to-env <variable>', 'the same from the environment, for a URL with a secret in it')
    .option(
      '--tool-server <id>',
      'the name that the server goes by: a DID or URL (default: the URL without its query; for a command stdio:<program>)',
    )
    .option(
      '--tools <file>',
      "what the server's operator says of its tools (TOOLS_FILE): then calls are refused here as there",
    )
    .addOption(list('--unsigned <name>', 'a tool, or a method, that needs no delegation; repeatable'))
    .option(
      '--record <file>',
      'add a line to this file for each call that is signed, or not; `drs-verify log` reads it',
    )
    .addOption(list('--header <header>', "a header for --to, as 'Name: value'; repeatable"))
    .addOption(
      list('--header-env <header>', "the same with a secret from the environment: 'Authorization: VARIABLE'"),
    )
    .option(
      '--passphrase-file <file>',
      'has the passphrase of the key (else DRS_KEY_PASSPHRASE, else the terminal)',
    )
    .option('--key-of-group', 'let the group of the key file read it, too')
    .option(
      '--listen <address>',
      'take HTTP requests on this address, such as 127.0.0.1:7070, instead of standard input',
    )
    .option(
      '--listen-on-network',
      'let --listen name an address that other machines reach: they can then call as this agent',
    )
    .addOption(
      new Option('--protocol <protocol>', 'what --listen takes').choices(['mcp', 'a2a']).default('mcp'),
    )
    .addOption(list('--allow-host <name>', 'another name by which --listen may be called; repeatable'))
    .addOption(list('--allow-origin <origin>', 'web pages that may call --listen; repeatable'))
    .addOption(list('--allow-address <url>', 'an address that stays in the agent card; repeatable'))
    .action(sign);
}

async function sign(command: readonly string[], options: SignOptions): Promise<void> {
  const { passphraseFile, keyOfGroup, protocol, chain: files } = options;
  const isChild = command.length > 0;
  const to = options.toEnv === undefined ? options.to : fromEnvironment('--to-env', options.toEnv);
  requireWay(isChild, options);
  const destination = to === undefined ? null : destinationOf(to, protocol, { isLocal: true });
  for (const file of [options.key ?? '', ...files])
    if (file === '-') throw new CommandError('- is not read here: standard input is the host', 'name a file');
  const { origin, pathname } = destination?.url ?? {};
  const url = destination === null ? `stdio:${path.basename(command[0] ?? '')}` : `${origin}${pathname}`;
  const toolServer = options.toolServer ?? url;
  const key = await readSigner(options, { passphraseFile, isPrivate: keyOfGroup ? 'group' : true });
  // No child gets it, whether it was needed or not.
  delete process.env['DRS_KEY_PASSPHRASE'];
  const signOnly = await openDelegations(key, files, readChainFile, toolServer, () =>
    readToolsFile(options.tools),
  );
  const { record } = options;
  const nameOf = await readRootNames();
  const signCall =
    record === undefined ? signOnly : recordingTo(record, signOnly, key.did, toolServer, nameOf);
  const signer = mcpSigner(signCall, new Set(options.unsigned));
  if (options.toolServer === undefined && (isChild || destination?.url.search !== ''))
    note(`calls are signed for ${toolServer}, which the server must go by; --tool-server names another`);
  if (destination === null) {
    return relayToChild(command, process.env, signer).catch((error: unknown) => {
      const hint = 'check the command after --, as you would type it in this folder';
      throw new CommandError(`cannot start ${command[0]}: ${(error as Error).message}`, hint);
    });
  }
  const headers = readHeaders(options.header, options.headerEnv);
  if (options.listen === undefined) {
    const say = sayTo(process.stdout);
    const server = httpEnd(httpTarget(destination.url), headers, say, note);
    const leave = (_: NodeJS.Signals, number: number) =>
      void server.end(0).then(() => process.exit(128 + number));
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.once(signal, leave);
    await pump(process.stdin, signer, server.send, say);
    await server.end();
    await write(process.stdout, '');
    process.exit(0);
  }
  // Only a port needs it.
  const { listenAndSign } = await import('../../relay/sign-http.js');
  const { listen } = options;
  const here = await listenAndSign({ ...options, listen, destination, signer, signCall, headers });
  note(`listening on ${here}: who reaches it calls ${printableUrl(destination.url.href)} as ${key.did}`);
}

function requireWay(isChild: boolean, options: SignOptions) {
  const { to, toEnv, listen, header, headerEnv, listenOnNetwork, protocol } = options;
  const { allowHost, allowOrigin, allowAddress } = options;
  const servers = Number(isChild) + Number(to !== undefined) + Number(toEnv !== undefined);
  const isOfPort =
    listenOnNetwork === true ||
    protocol !== 'mcp' ||
    [...allowHost, ...allowOrigin, ...allowAddress].length > 0;
  const isOfUrl = listen !== undefined || header.length + headerEnv.length > 0;
  refuseWrong([
    [servers !== 1, `there are ${servers} servers, expected one`, 'name it: --to <url>, or its command'],
    [
      isChild && isOfUrl,
      '--listen, --header and --header-env are for a server with a URL',
      'name it with --to, or leave them out',
    ],
    [
      listen === undefined && isOfPort,
      '--listen-on-network, --protocol, --allow-host, --allow-origin and --allow-address are for --listen',
      'add --listen <address>, or leave them out',
    ],
    [options.chain.length === 0, 'there is no chain to sign under', 'name the file of one with --chain'],
  ]);
}

/**
 * Signs, and adds a line for each call to a file: what was signed under which receipts, or why it was not. Each line is written
 * before the call is sent, and the file may be moved away at any time.
 *
 * @throws CommandError if the file cannot be written to
 */
function recordingTo(
  file: string,
  sign: SignCall,
  agent: string,
  toolServer: string,
  nameOf: NameOf,
): SignCall {
  const append = (text: string) => appendFileSync(file, text, { mode: 0o640 });
  try {
    append('');
  } catch (error) {
    throw new CommandError(
      `cannot write the record ${file}: ${(error as Error).message}`,
      'name a file in a folder you can write to',
    );
  }
  return async (command, args, what) => {
    const signed = await sign(command, args, what);
    const written = { time: new Date().toISOString(), instance: INSTANCE, endpoint: 'sign' };
    let facts: object;
    if (typeof signed === 'string') {
      const bundle = decodeBundle(signed);
      const call = readCall(bundle, (did) => nameOf(did) ?? undefined);
      facts = { receipts: bundle.receipts.map(digestOf), ...call };
    } else {
      const { code, message } = signed;
      const claims = { iss: agent, args, cmd: command, tool_server: toolServer };
      facts = { code, message: printableMessage(message), ...callOf({ rootPrincipal: null }, claims) };
    }
    try {
      append(`${JSON.stringify({ ...written, ...facts })}\n`);
    } catch (error) {
      note(`a line of the record was lost: ${(error as Error).message}`);
    }
    return signed;
  };
}

/** The headers that are set here, besides those of each connection. */
// prettier-ignore
const OWN: ReadonlySet<string> = new Set([
  'x-drs-bundle', 'content-type', 'accept', 'accept-encoding', 'last-event-id', 'mcp-session-id',
  'mcp-protocol-version', 'mcp-method', 'mcp-name', ...OWN_HEADERS,
]);

/**
 * Reads the headers of `--header` (`Name: value`) and of `--header-env` (`Name: VARIABLE`). Errors show no value, which
 * may be secret.
 *
 * @returns values by names in lower case
 */
export function readHeaders(written: readonly string[], fromEnv: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  const lines = [
    ...written.map((line) => ['', line] as const),
    ...fromEnv.map((line) => ['-env', line] as const),
  ];
  for (const [end, line] of lines) {
    const [, given = '', text = ''] = /^([\w!#$%&'*+.^`|~-]+):[ \t]*(.*)$/s.exec(line) ?? [];
    const name = given.toLowerCase();
    const wrong = (what: string, hint = 'leave it out') => new CommandError(`--header${end} ${what}`, hint);
    if (name === '')
      throw wrong(
        'has no colon after a name',
        `write it in quotes: 'Name: ${end === '' ? 'value' : 'VARIABLE'}'`,
      );
    if (OWN.has(name)) throw wrong(`sets ${given}, which is set by this command`);
    if (name in headers) throw wrong(`sets ${given}, which is set twice`);
    const value = end === '' ? text : fromEnvironment(`--header-env ${given}`, text);
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw wrong(`${given} has characters that no header can have`, 'remove them');
    headers[name] = value;
  }
  return headers;
}

function fromEnvironment(option: string, variable: string): string {
  const found = process.env[variable] ?? '';
  if (found !== '') return found;
  throw new CommandError(
    `${option} names the variable ${JSON.stringify(variable)}, which is not set`,
    'set it in the environment of this command',
  );
}

/** Standard output belongs to the protocol. */
function note(message: string): void {
  process.stderr.write(`drs-verify sign: ${printable(message)}\n`);
}
