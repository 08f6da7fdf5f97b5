import path from 'node:path';
import { Argument, type Command } from 'commander';
import { openDelegations } from '../../relay/sign.js';
import { destinationOf } from '../../relay/http-target.js';
import { DEFAULT_KEYS } from '../../protocol/key-resolver.js';
import { BUILD } from '../../service/observe/build-info.js';
import { readChainFile, readToolsFile } from '../files.js';
import { CommandError, refuseWrong } from '../command-error.js';
import { addKeyOptions, readSigner, type KeyOptions } from '../key-file.js';
import { collect } from '../options.js';
import { printable } from '../terminal.js';

interface HostOptions extends KeyOptions {
  readonly server: string;
  readonly chain: readonly string[];
  readonly passphraseFile?: string;
  readonly toolServer?: string;
  readonly trustedRoot: readonly string[];
  readonly state?: string;
  readonly tools?: string;
  readonly to?: string;
  readonly headerEnv: readonly string[];
  readonly variable: readonly string[];
}

/** What a host starts in the place of a server. */
interface Entry {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The names of variables that the server needs. Their values are secret, and stand in no file. */
  readonly variables: readonly string[];
}

/** What a person does with what is printed. */
interface Told {
  readonly text: string;
  /** The file that it belongs into; `null`: it is a command to run. */
  readonly file: string | null;
}

interface Host {
  /** How its file refers to a variable; `null`: it cannot. */
  readonly reference: ((variable: string) => string) | null;
  readonly tell: (entry: Entry, env: Readonly<Record<string, string>>) => Told;
}

const json = (value: unknown) => JSON.stringify(value, null, 2);
const envOf = (env: object) => (Object.keys(env).length === 0 ? {} : { env });
/** A file that has its servers by name in one member, each with a command, arguments and variables. */
const file =
  (where: string, member = 'mcpServers'): Host['tell'] =>
  ({ name, command, args }, env) => ({
    text: json({ [member]: { [name]: { command, args, ...envOf(env) } } }),
    file: where,
  });

/** By what its own documentation says, under the address above each. */
const HOSTS: Readonly<Record<string, Host>> = {
  // https://modelcontextprotocol.io/quickstart/user; no references: github.com/modelcontextprotocol/servers/issues/1039
  'claude-desktop': {
    reference: null,
    tell: file('claude_desktop_config.json (Settings, Developer, Edit Config)'),
  },
  // https://code.claude.com/docs/en/mcp
  'claude-code': {
    reference: (variable) => `\${${variable}}`,
    tell: ({ name, command, args }, env) => {
      const server = JSON.stringify({ type: 'stdio', command, args, ...envOf(env) });
      return { text: `claude mcp add-json --scope user ${shell(name, server)}`, file: null };
    },
  },
  // https://cursor.com/docs/mcp
  cursor: { reference: (variable) => `\${env:${variable}}`, tell: file('~/.cursor/mcp.json') },
  // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration. --add-mcp takes no inputs.
  vscode: {
    reference: (variable) => `\${input:${variable}}`,
    tell: ({ name, command, args, variables }, env) => {
      const server = { type: 'stdio', command, args, ...envOf(env) };
      if (variables.length === 0)
        return { text: shell('code', '--add-mcp', JSON.stringify({ name, ...server })), file: null };
      const inputs = variables.map((id) => ({ type: 'promptString', id, description: id, password: true }));
      return {
        text: json({ inputs, servers: { [name]: server } }),
        file: 'mcp.json (MCP: Open User Configuration)',
      };
    },
  },
  // https://docs.windsurf.com/windsurf/cascade/mcp
  windsurf: {
    reference: (variable) => `\${env:${variable}}`,
    tell: file('~/.codeium/windsurf/mcp_config.json'),
  },
  // https://zed.dev/docs/ai/mcp
  zed: { reference: null, tell: file('settings.json (zed: open settings file)', 'context_servers') },
  // https://docs.cline.bot/getting-started/config; references: github.com/cline/cline/pull/8079
  cline: {
    reference: (variable) => `\${env:${variable}}`,
    tell: file('~/.cline/data/settings/cline_mcp_settings.json (MCP Servers, Configure)'),
  },
  // https://developers.openai.com/codex/mcp. `mcp add` has only values of variables, the file has their names.
  codex: {
    reference: (variable) => variable,
    tell: ({ name, command, args, variables }) => {
      if (variables.length === 0)
        return { text: shell('codex', 'mcp', 'add', name, '--', command, ...args), file: null };
      const members = Object.entries({ command, args, env_vars: variables });
      const lines = members.map(([member, value]) => `${member} = ${toml(value)}`);
      return { text: [`[mcp_servers.${name}]`, ...lines].join('\n'), file: '~/.codex/config.toml' };
    },
  },
  // https://geminicli.com/docs/tools/mcp-server and /docs/cli/trusted-folders
  gemini: { reference: (variable) => `\${${variable}}`, tell: file('~/.gemini/settings.json') },
  // https://opencode.ai/docs/mcp-servers
  opencode: {
    reference: (variable) => `{env:${variable}}`,
    tell: ({ name, command, args }, env) => {
      const environment = Object.keys(env).length === 0 ? {} : { environment: env };
      const server = { type: 'local', command: [command, ...args], enabled: true, ...environment };
      return { text: json({ mcp: { [name]: server } }), file: '~/.config/opencode/opencode.json' };
    },
  },
};

/** Adds the options of `drs-verify host`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Prints what belongs into the file of a host, or the command of the host that writes it. Changes no file itself. ' +
        'With --trusted-root, `guard` stands before the server, and lets through what one of these principals has delegated.',
    )
    .addArgument(new Argument('<host>', 'the host').choices(Object.keys(HOSTS)))
    .argument('[command...]', 'behind --: an MCP server that speaks over standard input and output')
    .option('--server <name>', 'the name of the server in the host: letters, digits, - and _', 'drs');
  addKeyOptions(command)
    .option('--chain <file>', 'a chain for this key; repeatable', collect, [])
    .option('--passphrase-file <file>', 'has the passphrase of the key, if it is encrypted')
    .option('--tool-server <id>', 'the name that calls are signed for (default: stdio:<name>, or --to)')
    .option(
      '--trusted-root <did>',
      'put `guard` before the command, with this principal; repeatable',
      collect,
      [],
    )
    .option('--state <folder>', 'with --trusted-root: where `guard` keeps used calls and limits')
    .option('--tools <file>', 'with --trusted-root: what the tools of the server do, for `guard` and `sign`')
    .option('--to <url>', 'instead of a command, a server that speaks Streamable HTTP')
    .option(
      '--header-env <header>',
      "a header for --to, as 'Authorization: VARIABLE'; repeatable",
      collect,
      [],
    )
    .option('--variable <name>', 'a variable of the command: the file refers to it; repeatable', collect, [])
    .addHelpText(
      'after',
      `
Examples:
  npx drs-verify host claude-code --server files --key bot.key --chain root.jwt --trusted-root did:key:z6Mk… -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  npx drs-verify host cursor --server weather --key bot.key --chain root.jwt --to https://weather.example/mcp`,
    )
    .action(host);
}

async function host(name: string, server: readonly string[], options: HostOptions): Promise<void> {
  const { reference, tell } = HOSTS[name] as Host;
  const isGemini = name === 'gemini';
  // They take mcp_a_b_… for a tool of the server a.
  const isUnfound = isGemini && options.server.includes('_');
  refuseWrong([
    [isUnfound, 'the rules of gemini do not find a server with _ in its name', 'write - instead'],
  ]);
  const entry = await entryOf(server, options);
  const replaced = reference === null ? undefined : entry.args.find((arg) => /\$|\{(?:env|file):/.test(arg));
  if (replaced !== undefined)
    throw new CommandError(
      `${JSON.stringify(replaced)} has a $ or {env: in it, which ${name} may replace`,
      'start a script that has this word in it',
    );
  const env = reference === null ? [] : entry.variables.map((variable) => [variable, reference(variable)]);
  const { text, file: where } = tell(entry, Object.fromEntries(env) as Record<string, string>);
  process.stdout.write(`${text}\n`);
  const note = (line: string) => process.stderr.write(`${printable(line)}\n`);
  note(where === null ? 'Run this command.' : `This belongs into ${where}, beside what is there.`);
  if (reference === null && entry.variables.length > 0)
    note(
      `${name} cannot refer to variables: write ${entry.variables.join(', ')} with the value into a member "env" of the entry, where whoever reads the file reads it.`,
    );
  if (isGemini) note('It starts only in a folder that you trust (/permissions), where folder trust is on.');
  note(`Restart the host. Its calls are signed for the tool server ${toolServerOf(options)}.`);
}

/** What runs, as a host can start it from any folder. */
async function entryOf(server: readonly string[], options: HostOptions): Promise<Entry> {
  const { server: name, to, trustedRoot, state, tools, headerEnv, variable } = options;
  requireWay(server, options);
  const program = programOf(process.argv);
  const toolServer = ['--tool-server', toolServerOf(options)];
  const guard = trustedRoot.flatMap((did) => ['--trusted-root', did]);
  const kept = state === undefined ? [] : ['--state', path.resolve(state)];
  const said = tools === undefined ? [] : ['--tools', path.resolve(tools)];
  await readToolsFile(tools);
  const guarding = [...program, 'guard', ...guard, ...toolServer, ...kept, ...said, '--'];
  const guarded = guard.length === 0 ? [] : guarding;
  const headers = headerEnv.flatMap((header) => ['--header-env', header]);
  const behind = to === undefined ? ['--', ...guarded, ...server] : ['--to', to, ...headers];
  const signer = await signerOf(options);
  const [command, ...args] = [...program, 'sign', ...signer, ...toolServer, ...said, ...behind];
  const ofHeaders = headerEnv.map((header) => header.slice(header.indexOf(':') + 1).trim());
  const variables = [...new Set([...ofHeaders, ...variable])];
  const odd = /^[\w-]+$/.test(name) ? variables.find((one) => !/^[A-Za-z_]\w*$/.test(one)) : name;
  if (odd !== undefined)
    throw new CommandError(
      `${JSON.stringify(odd)} is no name, expected letters, digits and _ (in --server also -)`,
      'hosts take no other names alike',
    );
  return { name, command, args, variables };
}

function requireWay(
  server: readonly string[],
  { chain, to, trustedRoot, state, tools, headerEnv }: HostOptions,
) {
  const noDid = trustedRoot.find((did) => did !== 'any' && DEFAULT_KEYS.publicKeyOf(did) === null);
  refuseWrong([
    [
      (to === undefined) === (server.length === 0),
      'there is neither --to nor a command, or both',
      'name one server: --to <url>, or its command behind --',
    ],
    [chain.length === 0, 'there is no chain to sign under', 'name the file of one with --chain'],
    [
      to !== undefined && trustedRoot.length > 0,
      '--trusted-root is for a command',
      'leave it out: a server elsewhere has its own guard',
    ],
    [
      noDid !== undefined,
      `--trusted-root is ${JSON.stringify(noDid)}`,
      'name the DID of the principal, did:key:z6Mk…',
    ],
    [state !== undefined && trustedRoot.length === 0, '--state is for a guard', 'name a --trusted-root, too'],
    [tools !== undefined && trustedRoot.length === 0, '--tools is for a guard', 'name a --trusted-root, too'],
    [to === undefined && headerEnv.length > 0, '--header-env is for --to', 'name a --variable'],
  ]);
}

/** The options of `sign` that say by whom and under what. What would stop `sign` at its start is found now. */
async function signerOf(options: HostOptions): Promise<string[]> {
  const { key, agentSocket, passphraseFile, chain } = options;
  const signer = await readSigner(options, { passphraseFile, isPrivate: true });
  await openDelegations(signer, chain, readChainFile, toolServerOf(options));
  // Hosts hand on few variables, and this is seldom one of them.
  const socket = agentSocket ?? process.env['SSH_AUTH_SOCK'] ?? '';
  const by = key === undefined ? ['--agent', signer.did, '--agent-socket', path.resolve(socket)] : [];
  const files = [
    ...(key === undefined ? [] : [['--key', key]]),
    ...(passphraseFile === undefined ? [] : [['--passphrase-file', passphraseFile]]),
    ...chain.map((one) => ['--chain', one]),
  ] as [string, string][];
  return [...by, ...files.flatMap(([option, name]) => [option, path.resolve(name)])];
}

/** A query can have a secret in it: it is no part of a name. */
function toolServerOf({ server, to, toolServer }: HostOptions): string {
  if (toolServer !== undefined) return toolServer;
  return to === undefined ? `stdio:${server}` : destinationOf(to.replace(/\?.*/s, ''), 'mcp').url.href;
}

/**
 * How a host starts this program: this Node with this file, which stays the version that it is. What is in npx's cache
 * may vanish, so it is fetched again, in this version.
 */
export function programOf([node = '', main = '']: readonly string[]): readonly [string, ...string[]] {
  const isOfNpx = main.includes(`${path.sep}_npx${path.sep}`);
  return isOfNpx ? ['npx', '--yes', `drs-verify@${BUILD.version}`] : [node, path.resolve(main)];
}

/** A command line for a POSIX shell. */
function shell(...words: string[]): string {
  const quoted = (word: string) =>
    /^[\w%+,./:=@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
  return words.map(quoted).join(' ');
}

/** A string or an array of strings: TOML writes them as JSON does, but escapes DEL. */
function toml(value: string | readonly string[]): string {
  return JSON.stringify(value).replaceAll('\u007f', String.raw`\u007f`);
}
