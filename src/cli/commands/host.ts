import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Argument, type Command } from 'commander';
import { openDelegations } from '../../relay/sign.js';
import { destinationOf } from '../../relay/http-target.js';
import { isJsonObject, type JsonValue } from '../../protocol/json.js';
import { DEFAULT_KEYS } from '../../protocol/key-resolver.js';
import { BUILD } from '../../service/observe/build-info.js';
import { readChainFile, readToolsFile } from '../files.js';
import { CommandError, refuseWrong } from '../command-error.js';
import { addKeyOptions, readSigner, type KeyOptions } from '../key-file.js';
import { list } from '../options.js';
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

/** How a host is told of a server, by its own documentation. {@link fill} puts values in the place of `<name>` and the like. */
interface Host {
  /** The words of the command that makes the entry. Where there is a file, too, they are for an entry without variables. */
  readonly run?: JsonValue;
  /** Where the entry belongs. */
  readonly file?: string;
  readonly entry?: JsonValue;
  /** How the file refers to a variable; left out if it cannot. Values are secret, and stand in no file. */
  readonly reference?: string;
  /** How the file has a person asked for a variable. */
  readonly input?: JsonValue;
  /** What the name of a server must not have in it. */
  readonly notInName?: string;
  /** What to know besides. */
  readonly note?: string;
}

const HOSTS = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('#hosts'), 'utf8')) as Readonly<
  Record<string, Host>
>;

export const help = `
Examples:
  npx drs-verify host claude-code --server files --key bot.key --chain root.jwt --trusted-root did:key:z6Mk… -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  npx drs-verify host cursor --server weather --key bot.key --chain root.jwt --to https://weather.example/mcp`;

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
    .addOption(list('--chain <file>', 'a chain for this key; repeatable'))
    .option('--passphrase-file <file>', 'has the passphrase of the key, if it is encrypted')
    .option('--tool-server <id>', 'the name that calls are signed for (default: stdio:<name>, or --to)')
    .addOption(
      list('--trusted-root <did>', 'put `guard` before the command, with this principal; repeatable'),
    )
    .option('--state <folder>', 'with --trusted-root: where `guard` keeps used calls and limits')
    .option('--tools <file>', 'with --trusted-root: what the tools of the server do, for `guard` and `sign`')
    .option('--to <url>', 'instead of a command, a server that speaks Streamable HTTP')
    .addOption(list('--header-env <header>', "a header for --to, as 'Authorization: VARIABLE'; repeatable"))
    .addOption(list('--variable <name>', 'a variable of the command: the file refers to it; repeatable'))
    .action(host);
}

async function host(name: string, server: readonly string[], options: HostOptions): Promise<void> {
  const { run, file, entry, reference, input = '', notInName, note: known } = HOSTS[name] as Host;
  const isUnfound = notInName !== undefined && options.server.includes(notInName);
  const rule = `the rules of ${name} do not find a server with ${notInName} in its name`;
  refuseWrong([[isUnfound, rule, 'write - instead']]);
  const started = await startOf(server, options);
  const { args, variables } = started;
  const replaced = reference === undefined ? undefined : args.find((arg) => /\$|\{(?:env|file):/.test(arg));
  if (replaced !== undefined)
    throw new CommandError(
      `${JSON.stringify(replaced)} has a $ or {env: in it, which ${name} may replace`,
      'start a script that has this word in it',
    );
  const inputs = variables.map((variable) => fill(input, { variable }));
  const references = variables.map((variable) => [variable, fill(reference ?? '', { variable })] as const);
  const hasEnv = reference !== undefined && variables.length > 0;
  const values = { ...started, env: hasEnv ? Object.fromEntries(references) : undefined, inputs };
  const isRun = run !== undefined && (file === undefined || variables.length === 0);
  const told = fill((isRun ? run : entry) ?? null, values);
  let text = JSON.stringify(told, null, 2);
  if (isRun) text = shell(told as readonly unknown[]);
  else if (file?.endsWith('.toml')) text = toml(told as object);
  process.stdout.write(`${text}\n`);
  const note = (line: string) => process.stderr.write(`${printable(line)}\n`);
  note(isRun ? 'Run this command.' : `This belongs into ${file}, beside what is there.`);
  if (reference === undefined && variables.length > 0)
    note(
      `${name} cannot refer to variables: write ${variables.join(', ')} with the value into a member "env" of the entry, where whoever reads the file reads it.`,
    );
  if (known !== undefined) note(known);
  note(`Restart the host. Its calls are signed for the tool server ${toolServerOf(options)}.`);
}

/** Puts values in their places. A list is spread in a list; a member whose value is undefined is left out of JSON. */
function fill(template: JsonValue, values: Readonly<Record<string, unknown>>): unknown {
  if (Array.isArray(template)) return template.flatMap((one) => fill(one, values));
  if (isJsonObject(template))
    return Object.fromEntries(Object.entries(template).map((pair) => pair.map((one) => fill(one, values))));
  if (typeof template !== 'string') return template;
  const [, place] = /^<(\w+)>$/.exec(template) ?? [];
  if (place !== undefined) return values[place];
  return template.replaceAll(/<(\w+)>/g, (_, name: string) => String(values[name]));
}

/** What runs, as a host can start it from any folder, and the variables that it needs. */
async function startOf(server: readonly string[], options: HostOptions) {
  const { server: name, chain, to, trustedRoot, state, tools, headerEnv, variable } = options;
  const { key, agentSocket, passphraseFile } = options;
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
  const program = programOf(process.argv);
  const toolServer = ['--tool-server', toolServerOf(options)];
  const roots = trustedRoot.flatMap((did) => ['--trusted-root', did]);
  const said = fileOption('--tools', tools);
  await readToolsFile(tools);
  const guard = [
    ...program,
    'guard',
    ...roots,
    ...toolServer,
    ...fileOption('--state', state),
    ...said,
    '--',
  ];
  const guarded = roots.length === 0 ? [] : guard;
  const headers = headerEnv.flatMap((header) => ['--header-env', header]);
  const behind = to === undefined ? ['--', ...guarded, ...server] : ['--to', to, ...headers];
  // What would stop `sign` at its start is found now.
  const signer = await readSigner(options, { passphraseFile, isPrivate: true });
  await openDelegations(signer, chain, readChainFile, toolServerOf(options));
  // Hosts hand on few variables, and this is seldom one of them.
  const socket = agentSocket ?? process.env['SSH_AUTH_SOCK'] ?? '';
  const byAgent = ['--agent', signer.did, ...fileOption('--agent-socket', socket)];
  const signing = [
    ...(key === undefined ? byAgent : fileOption('--key', key)),
    ...fileOption('--passphrase-file', passphraseFile),
    ...chain.flatMap((one) => fileOption('--chain', one)),
  ];
  const [command, ...args] = [...program, 'sign', ...signing, ...toolServer, ...said, ...behind];
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

/** An option with a file, by a name that is the same in any folder; nothing if it was not given. */
const fileOption = (option: string, file: string | undefined) =>
  file === undefined ? [] : [option, path.resolve(file)];

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

/** A command line for a POSIX shell. What is no text is written as JSON. */
function shell(words: readonly unknown[]): string {
  const texts = words.map((word) => (typeof word === 'string' ? word : JSON.stringify(word)));
  const quoted = (word: string) =>
    /^[\w%+,./:=@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
  return texts.map(quoted).join(' ');
}

/** Tables of strings and arrays of strings: TOML writes these as JSON does, but escapes DEL. */
function toml(tables: object): string {
  const lines = Object.entries(tables).flatMap(([head, table]) => [
    `[${head}]`,
    ...Object.entries(table as object).map(([member, value]) => `${member} = ${JSON.stringify(value)}`),
  ]);
  return lines.join('\n').replaceAll('\u007f', String.raw`\u007f`);
}
