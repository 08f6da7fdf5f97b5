import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { Option, type Command } from 'commander';
import { isLoopback } from '../../protocol/loopback.js';
import { destinationOf } from '../../relay/http-target.js';
import { MAX_MESSAGE_BYTES } from '../../relay/message.js';
import { readConfiguration, warningsAbout } from '../../service/configuration/configuration.js';
import { isTypoOf, variableOf } from '../../service/configuration/environment.js';
import { addressOf, OPTIONS, SHARED, VARIABLES } from '../../service/configuration/variables.js';
import type { Configuration } from '../../service/configuration/variables.js';
import { Closers } from '../../service/closers.js';
import { openCore } from '../../service/core.js';
import { openLog } from '../../service/main.js';
import { BUILD } from '../../service/observe/build-info.js';
import { FileReplayStore, requireOwnFolder } from '../../usage/file-store.js';
import { OptionsError } from '../../verifier/options.js';
import { CommandError } from '../command-error.js';
import { collect } from '../options.js';
import { helpOnVariables } from '../variables.js';

export const help = `
Over stdio, the tool server finds the context of a call in params._meta["xyz.okeyamy.drs/context"]; over HTTP in the
headers X-DRS-…. What a client sends there is removed. A used call is refused (GATE_REPLAY, --state).

Examples:
  npx drs-verify guard --trusted-root did:key:z6Mk… --tool-server https://files.example -- node file-server.js /data
  npx drs-verify guard --trusted-root did:key:z6Mk… --tool-server https://tools.example --to http://127.0.0.1:3000/mcp --listen 127.0.0.1:8443
  npx drs-verify guard --trusted-root any --tool-server any --to http://127.0.0.1:3000 --protocol http --routes routes.json`;

/** Adds the options of `drs-verify guard`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Lets calls reach a tool server only if they are signed under a delegation that allows them. Takes the bundle out, ' +
        'and tells the tool server who acts for whom. Everything else passes as it is.\n' +
        'With a command behind --, it runs this MCP server and takes its place: standard input and output, standard error, ' +
        'signals and exit code are those of the server. With --to, it is a reverse proxy in front of one address.',
    )
    .argument('[command...]', 'the command of an MCP server that speaks over stdio, with its own options')
    .passThroughOptions()
    .option(
      '--trusted-root <did>',
      'a principal whose delegations count, as often as needed (DRS_TRUSTED_ROOTS); any: of anybody',
      collect,
    )
    .option(
      '--tool-server <name>',
      'the tool_server that calls are signed for (DRS_SERVER_IDENTITY); any: for any',
    )
    .option('--to <url>', 'the address of a tool server over HTTP; only its path is served')
    .option('--listen <address>', 'the address to listen on, such as 127.0.0.1:8443 (DRS_HOST and DRS_PORT)')
    .option('--allow-host <name>', 'another name by which --listen may be called; repeatable', collect)
    .addOption(
      new Option('--protocol <protocol>', 'what the tool server speaks, with --to; default: mcp').choices([
        'mcp',
        'a2a',
        'http',
      ]),
    )
    .option('--rpc <path>', 'with --protocol a2a: the one path of JSON-RPC; default: that of --to')
    .option(
      '--routes <file>',
      'with --protocol http: the table of routes (DRS_GATE_ROUTES); any: compare the body alone',
    )
    .option('--tools <file>', 'what its tools do: cost, write, read (DRS_TOOLS_FILE)')
    .option(
      '--state <folder>',
      'keep used calls and limits in this folder, which guards may share; without it they begin again with each start',
    )
    .option(
      '--check',
      'check the configuration and what it names, but no port, and exit: with 0 if it can work, else with 2',
    )
    .addHelpText('after', () => {
      const variables = helpOnVariables(PREFIX, ({ isOfServe, isShared }) => !isOfServe && !isShared);
      return `\nVariables, those of serve with a prefix:\n\n${variables}`;
    })
    .action(guard);
}

/** The options of `drs guard`. */
export interface GuardOptions {
  readonly trustedRoot?: readonly string[];
  readonly toolServer?: string;
  readonly routes?: string;
  readonly tools?: string;
  readonly to?: string;
  readonly rpc?: string;
  readonly listen?: string;
  readonly allowHost?: readonly string[];
  readonly protocol?: 'mcp' | 'a2a' | 'http';
  readonly state?: string;
  readonly check?: true;
}

/** What the variables of a guard begin with: it shares its environment with the program behind it. */
const PREFIX = 'DRS_';
/** Variables of other commands, which begin alike. */
const OTHERS = /^(?:VERIFY_URL|ADMIN_URL|ADMIN_TOKEN|ADMIN_TOKEN_FILE|KEY_PASSPHRASE|COMMIT)$/;
/** What no other program calls so: whoever sets one means the guard. */
const OURS = /^(?:STATUS_LIST|REVOCATION|TRUSTED_ROOTS|SERVER_IDENTITY|GATE|REPLAY|MAX_CHAIN)/;
/** The variables for which options stand. */
const NAMES: Readonly<Record<string, string>> = {
  TRUSTED_ROOTS: '--trusted-root (DRS_TRUSTED_ROOTS)',
  SERVER_IDENTITY: '--tool-server (DRS_SERVER_IDENTITY)',
  GATE_ROUTES: '--routes (DRS_GATE_ROUTES)',
  TOOLS_FILE: '--tools (DRS_TOOLS_FILE)',
  HOST: '--listen (DRS_HOST)',
};

/**
 * Runs a gate in front of a tool server, until the tool server or a signal ends it.
 *
 * @param command of a server over stdio; empty if the tool server is at an address
 * @throws CommandError if the options cannot be used, or if something cannot be opened
 */
export async function guard(command: readonly string[], options: GuardOptions): Promise<void> {
  const { to, state, check, rpc, protocol = 'mcp', allowHost = [] } = options;
  const isStdio = command.length > 0;
  const defect = findDefect(command, options);
  if (defect !== null) throw new CommandError(defect, 'see `drs-verify guard --help` for examples');
  const env = environmentOf(options, isStdio);
  const configuration = read(env, options, isStdio);
  const { gateRoutes, gateReplay, trustProxy, host, replayMaxEntries: maxEntries } = configuration;
  if (protocol === 'http' && gateRoutes === undefined)
    throw new CommandError(
      'there is no table of routes, so that every call would be refused',
      `name its file (--routes, ${PREFIX}GATE_ROUTES); --routes any compares the body alone, at the path of --to`,
    );
  if (state !== undefined && gateReplay !== 'memory')
    throw new CommandError(
      `--state keeps what is recorded in memory, and ${PREFIX}GATE_REPLAY is "${gateReplay}"`,
      `leave out --state, or unset ${PREFIX}GATE_REPLAY`,
    );
  const isRouted = gateRoutes !== 'any';
  const destination = destinationOf(to ?? 'http://stdio', protocol, { isRouted, rpc });
  if (check) {
    const { findStartProblems } = await import('../start-problems.js');
    const defects = await findStartProblems({ ...configuration, frontEnd: 'node' });
    if (state !== undefined) defects.push(...(await findStateProblems(state)));
    if (defects.length > 0) throw cannotStart(defects);
    console.log('The configuration can work.');
    return;
  }
  const log = openLog(configuration, isStdio ? 2 : 1);
  for (const warning of warningsAbout(configuration, true)) log.warn(inOptions(warning));
  if (state === undefined && gateReplay === 'memory')
    log.warn('used calls and limits begin again with each start: name a folder that keeps them (--state)');
  for (const name of VARIABLES)
    if (OURS.test(name) && process.env[name] !== undefined && env[name] === undefined)
      log.warn(
        `${name} is set, and a guard does not read it: what it was to refuse passes; set ${PREFIX}${name}`,
      );
  const openReplays =
    state === undefined ? undefined : () => FileReplayStore.open(state, { maxEntries, log });
  try {
    // Each loads what only it needs.
    if (isStdio) await runStdio(command, configuration, log, openReplays);
    else {
      const { hostsOf, runHttpRelay } = await import('../../relay/http-relay.js');
      const { openGuard } = await import('../../relay/guard-http.js');
      // A proxy passes on the name by which it was called.
      const isAny = allowHost.length === 0 && (!isLoopback(host) || trustProxy !== undefined);
      const hosts = isAny ? null : hostsOf(host, allowHost);
      // One agent's calls wait. Who refuses a crowd of strangers soon serves more of it in time.
      const own = isLoopback(host) ? { ...configuration, queueBurstMs: 60_000 } : configuration;
      const openDecider = openGuard(own, protocol, log, openReplays);
      const url = await runHttpRelay(
        { configuration: own, destination, openDecider, hosts, log, rename: inOptions },
        true,
      );
      // This comes last, since a program that waits for this line may send a signal at once.
      log.info({ ...BUILD, url, protocol, to: destination.url.origin }, 'listening');
    }
  } catch (error) {
    const message = inOptions((error as Error).message);
    // The message names what it is about, unless that is the program.
    throw new CommandError(
      isStdio ? `cannot guard ${command[0]}: ${message}` : message,
      `check ${isStdio ? 'the command behind --, and ' : ''}what the options and variables name (--check)`,
    );
  }
}

async function runStdio(
  command: readonly string[],
  configuration: Configuration,
  log: ReturnType<typeof openLog>,
  openReplays: Parameters<typeof openCore>[3],
): Promise<void> {
  const { stdioGuard } = await import('../../relay/guard-stdio.js');
  const { openTracing } = await import('../../service/observe/tracing.js');
  const { relayToChild } = await import('../../relay/pump.js');
  const opened = new Closers();
  try {
    const { gate } = await openCore(configuration, log, opened, openReplays);
    const guarding = stdioGuard(gate.decider, await openTracing(), configuration.maxBodyBytes);
    // Our variables, and so our secrets, are not for the server.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith(PREFIX)));
    await relayToChild(command, env, guarding);
  } finally {
    await opened.close();
  }
}

function findDefect(command: readonly string[], options: GuardOptions): string | null {
  const { trustedRoot = [], to, listen, protocol, routes, allowHost, rpc } = options;
  if (to === undefined) {
    if (command.length === 0)
      return 'there is no tool server: name its command behind --, or its address with --to';
    for (const [name, value] of Object.entries({ listen, protocol, routes, rpc, 'allow-host': allowHost }))
      if (value !== undefined)
        return `--${name} is for a tool server over HTTP (--to), and this one speaks over stdio`;
  } else if (command.length > 0)
    return 'there are two tool servers, that of --to and a command: expected one';
  if (trustedRoot.length > 1 && trustedRoot.includes('any'))
    return '--trusted-root is any, and principals besides: expected any alone, or principals';
  if (listen !== undefined && addressOf(listen) === null)
    return `--listen is ${JSON.stringify(listen)}, expected an address and a port such as 127.0.0.1:8443`;
  if (routes !== undefined && protocol !== 'http') return '--routes is for --protocol http alone';
  if (rpc !== undefined && (protocol !== 'a2a' || !rpc.startsWith('/')))
    return '--rpc is for --protocol a2a alone, expected a path such as /a2a';
  return null;
}

/** The variables of this process that are the guard's, without their prefix, with the options in their place. */
function environmentOf({ trustedRoot, toolServer, listen, routes, tools }: GuardOptions, isStdio: boolean) {
  // One client, whose messages come one after the other: threads would only take memory. A call is 2.8 times its arguments.
  const ofStdio = { WORKER_THREADS: '0', MAX_BODY_BYTES: String(MAX_MESSAGE_BYTES) };
  const env: Record<string, string | undefined> = isStdio ? ofStdio : {};
  for (const [variable, value] of Object.entries(process.env)) {
    const name = variable.slice(PREFIX.length);
    if (variable.startsWith(PREFIX) && !OTHERS.test(name))
      env[SHARED.includes(name) ? variable : name] = value;
  }
  for (const name of SHARED) env[name] = process.env[name];
  // The option counts alone.
  if (trustedRoot !== undefined) {
    env['TRUSTED_ROOTS'] = trustedRoot[0] === 'any' ? undefined : trustedRoot.join();
    env['TRUSTED_ROOTS_FILE'] = undefined;
  }
  if (toolServer !== undefined) env['SERVER_IDENTITY'] = toolServer;
  if (routes !== undefined) env['GATE_ROUTES'] = routes;
  if (tools !== undefined) env['TOOLS_FILE'] = tools;
  const address = listen === undefined ? null : addressOf(listen);
  return address === null ? env : { ...env, HOST: address.host, PORT: String(address.port) };
}

/**
 * Reads the configuration of a guard: that of the service, without what only the service has. Nobody behind a guard checks
 * root principals, so it must know whom to trust.
 */
function read(
  env: Readonly<Record<string, string | undefined>>,
  options: GuardOptions,
  isStdio: boolean,
): Configuration {
  const ofServe = [...OPTIONS].flatMap(([option, { isOfServe }]) => (isOfServe ? variableOf(option) : []));
  const known = [...VARIABLES, ...SHARED].filter((name) => !ofServe.includes(name.replace(/_FILE$/, '')));
  const isKnown = ([name]: readonly [string, unknown]) => known.includes(name);
  const defects = Object.entries(env)
    .filter((entry) => !isKnown(entry) && (entry[1]?.trim() ?? '') !== '')
    .map(([found]) => {
      const name = found.replace(PREFIX, '');
      const meant = known.find((one) => isTypoOf(one, name)) ?? 'none of this name';
      return `${PREFIX}${name} is not a variable of drs-verify guard, expected ${meant}: unset it`;
    });
  try {
    const configuration = readConfiguration(Object.fromEntries(Object.entries(env).filter(isKnown)));
    const { trustedRoots, trustedRootsFile, serverIdentity, decisionLog } = configuration;
    if (trustedRoots === undefined && trustedRootsFile === undefined && options.trustedRoot?.[0] !== 'any')
      defects.push(
        'there is no trusted root, so that anybody could delegate to themselves: name the principals whose delegations ' +
          'count (--trusted-root did:key:…, or a file: TRUSTED_ROOTS_FILE), or trust anybody (--trusted-root any)',
      );
    if (serverIdentity === undefined)
      defects.push(
        'the tool server has no name, so that every call would be refused: name the tool_server that calls are signed for ' +
          '(--tool-server https://…), or accept those for any (--tool-server any)',
      );
    if (isStdio && decisionLog === '-')
      defects.push(
        'DECISION_LOG is "-", and standard output is for the messages of the tool server: name a file',
      );
    if (defects.length === 0) return configuration;
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    defects.push(...error.problems);
  }
  throw cannotStart(defects);
}

/** Looks whether the folder of `--state` can be used, or created if it is missing. Changes nothing. */
async function findStateProblems(folder: string): Promise<string[]> {
  for (const at of [folder, path.dirname(folder)])
    try {
      await access(at, constants.R_OK | constants.W_OK | constants.X_OK);
      if (at === folder) await requireOwnFolder(folder);
      return [];
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT') return [`--state: ${message}`];
    }
  return [`--state: there is no folder in which ${folder} could be created`];
}

const VARIABLE = new RegExp(`(?<![\\w-])(?:${VARIABLES.join('|')})(?!\\w)`, 'g');

/** What is wrong, with the names that variables have here. */
function inOptions(defect: string): string {
  return defect.replace(VARIABLE, (name) => NAMES[name] ?? (SHARED.includes(name) ? name : PREFIX + name));
}

function cannotStart(defects: readonly string[]): CommandError {
  return new CommandError(
    `cannot start with this configuration: ${defects.map(inOptions).join('; ')}`,
    'correct them; `drs-verify guard --help` lists options and variables',
  );
}
