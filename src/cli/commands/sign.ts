import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Option, type Command } from 'commander';
import { CommandError } from '../command-error.js';
import { addKeyOptions, readSigner, type KeyOptions } from '../key-file.js';
import { Delegations } from '../sign/delegations.js';
import { HttpTarget } from '../sign/exchange.js';
import { a2aHttpSigner, mcpHttpSigner } from '../sign/http-signers.js';
import { Output } from '../sign/lines.js';
import { createListener } from '../sign/listen.js';
import { callersOf, isLoopback } from '../sign/local-only.js';
import { McpSigner } from '../sign/mcp-signer.js';
import { readAddress, readHeaders, readTarget } from '../sign/options.js';
import { relayToChild } from '../sign/to-child.js';
import { HttpRelay } from '../sign/to-http.js';
import { printable } from '../terminal.js';

interface SignOptions extends KeyOptions {
  readonly passphraseFile?: string;
  readonly chain: readonly string[];
  readonly to?: string;
  readonly toolServer?: string;
  readonly unsigned: readonly string[];
  readonly header: readonly string[];
  readonly headerEnv: readonly string[];
  readonly listen?: string;
  readonly listenOnNetwork?: true;
  readonly protocol: 'mcp' | 'a2a';
  readonly allowHost: readonly string[];
  readonly allowOrigin: readonly string[];
}

/** `drs sign` */
export function addSign(program: Command): void {
  const command = program
    .command('sign')
    .summary('sign the calls of an agent that you cannot change')
    .description(
      'Stands between an MCP host and an MCP server, or an A2A client and an agent, and signs each request that the server checks. All else passes as it is. What no delegation allows is not sent: the host gets an error that says what to ask for.',
    )
    .argument(
      '[command...]',
      'an MCP server that speaks over standard input and output, with its own options',
    )
    .passThroughOptions();
  addKeyOptions(command)
    .option(
      '--chain <file>',
      'a chain for this key; repeat it for several: the first that allows a call is used',
      collect,
      [],
    )
    .option('--to <url>', 'an MCP server that speaks Streamable HTTP; with --listen also an A2A agent')
    .option(
      '--tool-server <id>',
      'the name that the server goes by: a DID or URL (default: the URL of --to; for a command stdio:<program>)',
    )
    .option('--unsigned <name>', 'a tool, or a method, that needs no delegation; repeatable', collect, [])
    .option('--header <header>', "a header for --to, as 'Name: value'; repeatable", collect, [])
    .option(
      '--header-env <header>',
      "the same with a secret from the environment: 'Authorization: VARIABLE'",
      collect,
      [],
    )
    .option(
      '--passphrase-file <file>',
      'has the passphrase of the key (else DRS_KEY_PASSPHRASE, else the terminal)',
    )
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
    .option('--allow-host <name>', 'another name by which --listen may be called; repeatable', collect, [])
    .option('--allow-origin <origin>', 'web pages that may call --listen; repeatable', collect, [])
    .addHelpText(
      'after',
      `
Chain files are read again when they change. With --listen, every program and user of this machine that reaches the port
can call as this agent.

Examples:
  npx drs-verify sign --key bot.key --chain root.jwt --to https://tools.example/mcp
  npx drs-verify sign --key bot.key --chain root.jwt --tool-server https://files.example -- node a-server.js /data
  npx drs-verify sign --key bot.key --chain root.jwt --to https://tools.example/mcp --listen 127.0.0.1:7070
  npx drs-verify sign --key bot.key --chain root.jwt --to https://agent.example --listen 127.0.0.1:7071 --protocol a2a`,
    )
    .action(sign);
}

async function sign(command: readonly string[], options: SignOptions): Promise<void> {
  const isChild = command.length > 0;
  requireWay(isChild, options);
  if (options.chain.length === 0)
    throw new CommandError('there is no chain to sign under', 'name the file of one with --chain');
  const target = options.to === undefined ? null : readTarget(options.to);
  const toolServer = options.toolServer ?? target?.href ?? `stdio:${path.basename(command[0] ?? '')}`;
  for (const file of [options.key ?? '', ...options.chain])
    if (file === '-') throw new CommandError('- is not read here: standard input is the host', 'name a file');
  const { passphraseFile } = options;
  const key = await readSigner(options, { passphraseFile, isPrivate: true });
  // No child gets it, whether it was needed or not.
  delete process.env['DRS_KEY_PASSPHRASE'];
  const delegations = new Delegations({ key, files: options.chain, toolServer, note });
  const signer = new McpSigner(delegations, new Set(options.unsigned));
  if (isChild && options.toolServer === undefined)
    note(`calls are signed for ${toolServer}, which the server must go by; --tool-server names another`);
  if (target === null) {
    await relayToChild(command, signer);
    return;
  }
  const headers = readHeaders(options.header, options.headerEnv);
  if (options.listen === undefined) await relayToHttp(new HttpTarget(target), headers, signer);
  else await listen(new HttpTarget(target), headers, { options, signer, delegations });
}

function requireWay(
  isChild: boolean,
  { to, listen: address, header, headerEnv, listenOnNetwork, allowHost, allowOrigin, protocol }: SignOptions,
) {
  const wrong = (found: string, hint: string) => {
    throw new CommandError(found, hint);
  };
  if (isChild === (to !== undefined))
    wrong(
      isChild ? 'there is a command and --to' : 'there is neither --to nor a command',
      'name one server: --to <url>, or its command',
    );
  if (isChild && (address !== undefined || header.length + headerEnv.length > 0))
    wrong(
      '--listen, --header and --header-env are for a server with a URL',
      'name it with --to, or leave them out',
    );
  const listens = listenOnNetwork === true || protocol !== 'mcp' || allowHost.length + allowOrigin.length > 0;
  if (address === undefined && listens)
    wrong(
      '--listen-on-network, --protocol, --allow-host and --allow-origin are for --listen',
      'add --listen <address>, or leave them out',
    );
}

async function relayToHttp(
  target: HttpTarget,
  headers: Readonly<Record<string, string>>,
  signer: McpSigner,
): Promise<void> {
  const output = new Output(process.stdout);
  const stop = stopOnSignal();
  await new HttpRelay({ target, headers, signer, output, note }).run(process.stdin, stop);
  await output.end();
  process.exit(stop.aborted ? 128 + Number(stop.reason) : 0);
}

interface Listening {
  readonly options: SignOptions;
  readonly signer: McpSigner;
  readonly delegations: Delegations;
}

async function listen(
  target: HttpTarget,
  headers: Readonly<Record<string, string>>,
  { options, signer, delegations }: Listening,
): Promise<void> {
  const { host, port } = readAddress(options.listen ?? '');
  if (!isLoopback(host) && options.listenOnNetwork !== true)
    throw new CommandError(
      `other machines can reach ${host}, and whoever reaches this port calls as this agent`,
      'listen on 127.0.0.1, or add --listen-on-network if you mean it',
    );
  const { protocol } = options;
  const server = createListener({
    target,
    protocol,
    sign: protocol === 'mcp' ? mcpHttpSigner(signer) : a2aHttpSigner(delegations),
    callers: callersOf([host.includes(':') ? `[${host}]` : host, ...options.allowHost], options.allowOrigin),
    headers,
    note,
  });
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new CommandError(
      `cannot listen on ${host}:${port}: ${(error as Error).message}`,
      'choose another port',
    );
  }
  const at = server.address() as AddressInfo;
  const shown = at.family === 'IPv6' ? `[${at.address}]` : at.address;
  note(
    `listening on http://${shown}:${at.port}: who reaches it calls ${target.url.href} as ${delegations.did}`,
  );
  const stop = stopOnSignal();
  await once(stop, 'abort');
  server.close();
  server.closeAllConnections();
  target.close();
}

/** Aborts when this process is told to end. The reason is the number of the signal. */
function stopOnSignal(): AbortSignal {
  const controller = new AbortController();
  const numbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };
  for (const [signal, number] of Object.entries(numbers))
    process.once(signal, () => controller.abort(number));
  return controller.signal;
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

/** Standard output belongs to the protocol. */
function note(message: string): void {
  process.stderr.write(`drs-verify sign: ${printable(message)}\n`);
}
