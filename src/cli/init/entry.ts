import path from 'node:path';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { CommandError } from '../command-error.js';

/** What `init` puts into an entry. */
export interface SignedBy {
  /** The program that signs, and the arguments before `sign`. */
  readonly program: readonly [string, ...string[]];
  /** The options of `sign` that say by which key: `--key` or `--agent`, and what belongs to it. */
  readonly signer: readonly string[];
  readonly chain: readonly string[];
  readonly toolServer: string;
}

/** Members of an entry to set, or to remove (`undefined`). */
export type EntryChange = Readonly<Record<string, JsonValue | undefined>>;

/** The types of an entry with a URL that mean Streamable HTTP. */
const HTTP_TYPES = ['http', 'streamable-http', 'streamableHttp', 'streamable_http'];

/** Members by which a host itself signs in at a server: `sign` cannot, so the entry would stop working. */
const SIGN_IN = ['oauth', 'auth', 'authProviderType', 'authorization', 'authorization_token'];

/**
 * Whether an entry runs through `sign` already.
 *
 * @param entry of `mcpServers`
 */
export function isSigned({ command, args }: JsonObject): boolean {
  if (!Array.isArray(args)) return false;
  const at = args.indexOf('sign');
  const before = at > 0 ? args[at - 1] : command;
  return (
    typeof before === 'string' &&
    /drs-verify|(?:^|[/\\])(?:drs\.mjs|main\.js)$/.test(before) &&
    (args.includes('--key') || args.includes('--agent'))
  );
}

/** The name that calls are signed for, where none is given: the URL of the server, else the name of its entry. */
export function toolServerOf(name: string, { url }: JsonObject): string {
  return typeof url === 'string' ? new URL(url).href : `stdio:${encodeURIComponent(name)}`;
}

/**
 * What to change in an entry of `mcpServers` so that the host runs it through `sign`.
 *
 * @throws CommandError that names what is not known of its shape
 */
export function signedEntry(name: string, entry: JsonObject, by: SignedBy): EntryChange {
  const shape = (
    found: string,
    hint = 'change it by hand: have its command run `drs-verify sign` (drs-verify help sign)',
  ) => new CommandError(`the entry ${JSON.stringify(name)} ${found}`, hint);
  if (isSigned(entry)) throw shape('runs through drs-verify already', 'to change it, first run init --undo');
  const { command, url, args = [], headers = {}, env = {}, type } = entry;
  const [program, ...before] = by.program;
  const options = [
    ...[...before, 'sign', ...by.signer],
    ...by.chain.flatMap((file) => ['--chain', file]),
    ...['--tool-server', by.toolServer],
  ];
  if (!isTexts(env)) throw shape('has a member env that is not an object of strings');
  if (typeof command === 'string' && url === undefined) {
    if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string'))
      throw shape('has a member args that is not an array of strings');
    if (type !== undefined && type !== 'stdio')
      throw shape(`has a command and the type ${JSON.stringify(type)}, expected "stdio"`);
    return { command: program, args: [...options, command, ...args] };
  }
  if (typeof url !== 'string' || command !== undefined)
    throw shape('has neither a command nor a url, or both: expected one of them, as a string');
  if (type !== undefined && !(typeof type === 'string' && HTTP_TYPES.includes(type)))
    throw shape(`has the type ${JSON.stringify(type)}, expected one of ${HTTP_TYPES.join(', ')}`);
  if (!isTexts(headers)) throw shape('has a member headers that is not an object of strings');
  const signIn = SIGN_IN.find((member) => Object.hasOwn(entry, member));
  if (signIn !== undefined) throw shape(`has a member ${signIn}: sign passes on only fixed headers`);
  // Arguments can be seen by others on this machine, variables cannot.
  const variables = Object.keys(headers).map((header, at) => [header, `DRS_HEADER_${at + 1}`] as const);
  const given = variables.flatMap(([header, variable]) => ['--header-env', `${header}: ${variable}`]);
  const values = Object.fromEntries(variables.map(([header, variable]) => [variable, headers[header] ?? '']));
  return {
    type: type === undefined ? undefined : 'stdio',
    url: undefined,
    headers: undefined,
    command: program,
    args: [...options, '--to', url, ...given],
    ...(variables.length === 0 ? {} : { env: { ...env, ...values } }),
  };
}

function isTexts(value: JsonValue): value is Record<string, string> {
  return isJsonObject(value) && Object.values(value).every((text) => typeof text === 'string');
}

/**
 * How a host starts this program: this Node with this file, since a host may have another `PATH`. What is
 * in npx's cache may vanish, so it is started as it was.
 */
export function programOf([node = '', file = '']: readonly string[]): readonly [string, ...string[]] {
  return file.includes(`${path.sep}_npx${path.sep}`) ? ['npx', '--yes', 'drs-verify'] : [node, file];
}
