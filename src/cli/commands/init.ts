import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { Command } from 'commander';
import { confirm } from '../agreement.js';
import { readChainFile } from '../bundle-file.js';
import { CommandError, EXIT } from '../command-error.js';
import { differenceOf } from '../init/difference.js';
import { isSigned, programOf, signedEntry, toolServerOf } from '../init/entry.js';
import {
  changeEntry,
  copyOf,
  findEntry,
  readCopy,
  readHostFile,
  replaceEntry,
  type HostFile,
} from '../init/host-file.js';
import { replaceFile } from '../files.js';
import { addKeyOptions, readSigner, type KeyOptions } from '../key-file.js';
import { Delegations } from '../../relay/delegations.js';
import { coloursFor, printable } from '../terminal.js';

interface InitOptions extends KeyOptions {
  readonly server?: string;
  readonly chain: readonly string[];
  readonly toolServer?: string;
  readonly passphraseFile?: string;
  readonly yes?: true;
  readonly undo?: true;
}

/** `drs init` */
export function addInit(program: Command): void {
  const command = program
    .command('init')
    .summary('have an MCP host run a server through `sign`')
    .description(
      "Changes one entry of mcpServers in a host's configuration, so that its calls are signed. Shows the difference and asks. Keeps a copy beside the file; --undo puts the entry back.",
    )
    .argument('<host_config>', 'the JSON file in which the host lists its servers under mcpServers')
    .option('--server <name>', 'the entry (default: the only one)');
  addKeyOptions(command)
    .option(
      '--chain <file>',
      'a chain for this key; repeatable',
      (value: string, before: readonly string[]) => [...before, value],
      [],
    )
    .option(
      '--tool-server <id>',
      'the name that the server goes by: a DID or URL (default: its URL, or stdio:<entry>)',
    )
    .option('--passphrase-file <file>', 'has the passphrase of the key, if it is encrypted')
    .option('--yes', 'do not ask')
    .option('--undo', 'put the entry back as it was')
    .addHelpText(
      'after',
      `
Restart the host afterwards.

Examples:
  npx drs-verify init ~/.config/host/mcp.json --server weather --key bot.key --chain root.jwt --tool-server https://weather.example
  npx drs-verify init ~/.config/host/mcp.json --server weather --undo`,
    )
    .action(async (file: string, options: InitOptions) => {
      const host = await readHostFile(file);
      await (options.undo ? undo(host, options) : init(host, options));
    });
}

async function init(host: HostFile, options: InitOptions): Promise<void> {
  const { chain, passphraseFile } = options;
  if (chain.length === 0) throw new CommandError('init needs --chain', "name a chain for the agent's key");
  const { name, value } = findEntry(host, options.server);
  const { toolServer = toolServerOf(name, value) } = options;
  // What would stop `sign` at its start is found now.
  const key = await readSigner(options, { passphraseFile, isPrivate: true });
  const note = () => undefined;
  await Delegations.open({ key, files: chain, read: readChainFile, toolServer, note });
  const change = signedEntry(name, value, {
    program: programOf([process.execPath, full(process.argv[1] ?? '')]),
    signer: signerOptions(key.did, options),
    chain: chain.map(full),
    toolServer,
  });
  const copy = copyOf(host.file, name);
  await write(host, changeEntry(host.text, name, change), options, copy);
  process.stderr.write(
    `wrote ${host.file}; a copy from before is ${copy}\nIts calls are signed for the tool server ${printable(toolServer)}: what verifies them must go by this name (SERVER_IDENTITY), or --tool-server name another.\nRestart the host. To take it back: npx drs-verify init ${shellWord(host.file)} --server ${shellWord(name)} --undo\n`,
  );
}

/** The same key for `sign`, whatever else the agent has by then, and wherever the host starts it. */
function signerOptions(did: string, { key, passphraseFile, agentSocket }: InitOptions): string[] {
  if (key === undefined) {
    // Hosts hand on few variables, and this is seldom one of them.
    const socket = agentSocket ?? process.env['SSH_AUTH_SOCK'] ?? '';
    return ['--agent', did, '--agent-socket', full(socket)];
  }
  const passphrase = passphraseFile === undefined ? [] : ['--passphrase-file', full(passphraseFile)];
  return ['--key', full(key), ...passphrase];
}

/** A text as one word of a shell's command line. */
function shellWord(text: string): string {
  return /^[\w%+,./:=@-]+$/.test(text) ? text : `'${printable(text).replaceAll("'", String.raw`'\''`)}'`;
}

function full(relative: string): string {
  return path.resolve(relative);
}

async function undo(host: HostFile, options: InitOptions): Promise<void> {
  const { key, agent, agentSocket, passphraseFile, chain, toolServer } = options;
  if (
    chain.length > 0 ||
    [key, agent, agentSocket, passphraseFile, toolServer].some((given) => given !== undefined)
  )
    throw new CommandError('--undo needs no key, --chain or --tool-server', 'leave them out');
  const entry = findEntry(host, options.server);
  const { name } = entry;
  const copy = copyOf(host.file, name);
  const before = await readCopy(copy);
  if (!isSigned(entry.value))
    throw new CommandError(
      `the entry ${JSON.stringify(name)} does not run through drs-verify`,
      'there is nothing to undo',
    );
  if (before === null)
    throw new CommandError(`there is no copy ${copy} to take the entry from`, 'change the entry by hand');
  const { node } = findEntry({ file: copy, text: before }, name);
  const text = replaceEntry(host.text, entry, before.slice(node.offset, node.offset + node.length));
  await write(host, text, options, null);
  await rm(copy, { force: true });
  process.stderr.write(`wrote ${host.file}, and removed ${copy}\n`);
}

/**
 * Shows what changes, asks, and writes.
 *
 * @param copy where to keep the text from before
 */
async function write(host: HostFile, text: string, options: InitOptions, copy: string | null): Promise<void> {
  const { red, green } = coloursFor(process.stdout);
  const lines = differenceOf(host.text, text).map((line) =>
    line.startsWith('-') ? red(line) : line.startsWith('+') ? green(line) : line,
  );
  process.stdout.write(`${lines.join('\n')}\n`);
  if (
    options.yes !== true &&
    !(await confirm(`Write this to ${host.file}?`, 'add --yes to write it unasked'))
  )
    throw new CommandError('nothing was written', 'answer y to write it', EXIT.no);
  // The host may have written meanwhile.
  if ((await readHostFile(host.file)).text !== host.text)
    throw new CommandError(`${host.file} has changed meanwhile`, 'run the command again');
  if (copy !== null) await replaceFile(copy, host.text, host.file);
  await replaceFile(host.file, text);
}
