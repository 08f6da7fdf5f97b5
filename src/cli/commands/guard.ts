import { Option, type Command } from 'commander';
import { isLoopback } from '../../protocol/loopback.js';
import type { HttpRelayParts } from '../../relay/http-relay.js';
import { destinationOf, type Destination } from '../../relay/http-target.js';
import { MAX_MESSAGE_BYTES } from '../../relay/message.js';
import { readConfiguration, warningsAbout } from '../../service/configuration/configuration.js';
import { isTypoOf, variableOf } from '../../service/configuration/environment.js';
import { addressOf, OPTIONS, SHARED, VARIABLES } from '../../service/configuration/variables.js';
import type { Configuration } from '../../service/configuration/variables.js';
import { Closers } from '../../service/closers.js';
import { openCore } from '../../service/core.js';
import { openLog } from '../../service/main.js';
import { BUILD } from '../../service/observe/build-info.js';
import { FileReplayStore } from '../../usage/file-store.js';
import { OptionsError } from '../../verifier/options.js';
import { CommandError, refuseWrong } from '../command-error.js';
import { collect } from '../options.js';
import { helpOnVariables } from '../variables.js';

export const help = `
Over stdio, the tool server finds the context of a call in params._meta["xyz.okeyamy.drs/context"]; over HTTP in the
headers X-DRS-…. What a client sends there is removed. A used call is refused (GATE_REPLAY, --state).

Examples:
  npx drs-verify guard --trusted-root did:key:z6Mk… --tool-server https://files.example -- node file-server.js /data
  npx drs-verify guard --trusted-root did:key:z6Mk… --tool-server https://tools.example --to http://127.0.0.1:3000/mcp --listen 127.0.0.1:8443
  npx drs-verify guard --trusted-root any --tool-server any --to http://127.0.0.1:3000 --protocol http --routes routes.json`;

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
/** What is set for a guard: not the variables of other commands, which begin alike. */
const OF_GUARD = /^DRS_(?!(?:VERIFY_URL|ADMIN_URL|ADMIN_TOKEN|ADMIN_TOKEN_FILE|KEY_PASSPHRASE|COMMIT)$)/;
/** Names that no other program uses: whoever sets one means the guard. */
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
  const { to, state, check, rpc, protocol = 'mcp' } = options;
  const isStdio = command.length > 0;
  const problem = findProblem(command, options);
  if (problem !== null) throw new CommandError(problem, 'see `drs-verify guard --help` for examples');
  const { configuration, env } = read(options, isStdio);
  const { gateRoutes, gateReplay, replayMaxEntries: maxEntries } = configuration;
  refuseWrong([
    [
      protocol === 'http' && gateRoutes === undefined,
      'there is no table of routes, so that every call would be refused',
      `name its file (--routes, ${PREFIX}GATE_ROUTES); --routes any compares the body alone, at the path of --to`,
    ],
    [
      state !== undefined && gateReplay !== 'memory',
      `--state keeps what is recorded in memory, and ${PREFIX}GATE_REPLAY is "${gateReplay}"`,
      `leave out --state, or unset ${PREFIX}GATE_REPLAY`,
    ],
  ]);
  const isRouted = gateRoutes !== 'any';
  const destination = destinationOf(to ?? 'http://stdio', protocol, { isRouted, rpc });
  if (check) return checkStart(configuration, state);
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
  const guarding = { configuration, log, openReplays };
  try {
    if (isStdio) await runStdio(command, guarding);
    else await runHttp(destination, options, guarding);
  } catch (error) {
    const message = inOptions((error as Error).message);
    // The message names what it is about, unless that is the program.
    throw new CommandError(
      isStdio ? `cannot guard ${command[0]}: ${message}` : message,
      `check ${isStdio ? 'the command behind --, and ' : ''}what the options and variables name (--check)`,
    );
  }
}

/** What a guard decides by, and where it says what it does. */
interface Guarding extends Pick<HttpRelayParts, 'configuration' | 'log'> {
  readonly openReplays: Parameters<typeof openCore>[3];
}

// Each of these two loads what only it needs.

async function runStdio(command: readonly string[], guarding: Guarding): Promise<void> {
  const { configuration, log, openReplays } = guarding;
  const { stdioGuard } = await import('../../relay/guard-stdio.js');
  const { openTracing } = await import('../../service/observe/tracing.js');
  const { relayToChild } = await import('../../relay/pump.js');
  const opened = new Closers();
  try {
    const core = await openCore(configuration, log, opened, openReplays);
    if (core.gate.approvals !== null) {
      const { openApprovePage } = await import('../../relay/approve-page.js');
      await openApprovePage(core, configuration, log, opened);
    }
    const hook = stdioGuard(core.gate.decider, await openTracing(), configuration.maxBodyBytes);
    // Our variables, and so our secrets, are not for the server.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith(PREFIX)));
    await relayToChild(command, env, hook);
  } finally {
    await opened.close();
  }
}

async function runHttp(destination: Destination, options: GuardOptions, guarding: Guarding): Promise<void> {
  const { protocol = 'mcp', allowHost = [] } = options;
  const { configuration, log, openReplays } = guarding;
  const { host, trustProxy } = configuration;
  const { hostsOf, runHttpRelay } = await import('../../relay/http-relay.js');
  const { openGuard } = await import('../../relay/guard-http.js');
  // A proxy passes on the name by which it was called.
  const isAny = allowHost.length === 0 && (!isLoopback(host) || trustProxy !== undefined);
  const hosts = isAny ? null : hostsOf(host, allowHost);
  const openDecider = openGuard(configuration, protocol, log, openReplays);
  const parts = { configuration, destination, openDecider, hosts, log, rename: inOptions };
  const url = await runHttpRelay(parts, true);
  // This comes last, since a program that waits for this line may send a signal at once.
  log.info({ ...BUILD, url, protocol, to: destination.url.origin }, 'listening');
}

/** @returns what is wrong with the options, whatever the variables are */
function findProblem(command: readonly string[], options: GuardOptions): string | null {
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

/** The variables in whose place options stand. An option counts alone. */
function variablesOf({ trustedRoot, toolServer, listen, routes, tools }: GuardOptions) {
  const address = addressOf(listen ?? '');
  return {
    ...(trustedRoot && {
      TRUSTED_ROOTS: trustedRoot[0] === 'any' ? undefined : trustedRoot.join(),
      TRUSTED_ROOTS_FILE: undefined,
    }),
    ...(toolServer !== undefined && { SERVER_IDENTITY: toolServer }),
    ...(routes !== undefined && { GATE_ROUTES: routes }),
    ...(tools !== undefined && { TOOLS_FILE: tools }),
    ...(address && { HOST: address.host, PORT: String(address.port) }),
  };
}

/**
 * Reads the configuration of a guard: that of the service, without what only the service has, by variables with a prefix.
 * Nobody behind a guard checks root principals, so it must know whom to trust.
 */
function read(options: GuardOptions, isStdio: boolean) {
  const ofServe = [...OPTIONS].flatMap(([option, { isOfServe }]) => (isOfServe ? variableOf(option) : []));
  const known = [...VARIABLES, ...SHARED].filter((name) => !ofServe.includes(name.replace(/_FILE$/, '')));
  // One client, whose messages come one after the other: threads would only take memory. A call is 2.8 times its arguments.
  const ofStdio = { WORKER_THREADS: '0', MAX_BODY_BYTES: String(MAX_MESSAGE_BYTES) };
  const env: Record<string, string | undefined> = isStdio ? ofStdio : {};
  const problems: string[] = [];
  for (const name of SHARED) env[name] = process.env[name];
  for (const [variable, value = ''] of Object.entries(process.env)) {
    if (!OF_GUARD.test(variable)) continue;
    const name = variable.slice(PREFIX.length);
    const meant = known.find((one) => isTypoOf(one, name)) ?? 'none of this name';
    if (known.includes(name) && !SHARED.includes(name)) env[name] = value;
    else if (value.trim() !== '')
      problems.push(`${variable} is not a variable of drs-verify guard, expected ${meant}: unset it`);
  }
  Object.assign(env, variablesOf(options));
  try {
    const configuration = readConfiguration(env);
    const { trustedRoots, trustedRootsFile, serverIdentity } = configuration;
    if (trustedRoots === undefined && trustedRootsFile === undefined && options.trustedRoot?.[0] !== 'any')
      problems.push(
        'there is no trusted root, so that anybody could delegate to themselves: name the principals whose delegations ' +
          'count (--trusted-root did:key:…, or a file: TRUSTED_ROOTS_FILE), or trust anybody (--trusted-root any)',
      );
    if (serverIdentity === undefined)
      problems.push(
        'the tool server has no name, so that every call would be refused: name the tool_server that calls are signed for ' +
          '(--tool-server https://…), or accept those for any (--tool-server any)',
      );
    if (isStdio) problems.push(...problemsOverStdio(configuration));
    if (problems.length === 0) return { configuration, env };
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    problems.push(...error.problems);
  }
  throw cannotStart(problems);
}

function problemsOverStdio({ decisionLog, approvalsUrl = '' }: Configuration): string[] {
  const problems: string[] = [];
  if (decisionLog === '-')
    problems.push(
      'DECISION_LOG is "-", and standard output is for the messages of the tool server: name a file',
    );
  if (approvalsUrl.startsWith('https:'))
    problems.push(
      `APPROVALS_URL is "${approvalsUrl}", and over stdio the page is on this machine alone: expected http://localhost with a port`,
    );
  return problems;
}

async function checkStart(configuration: Configuration, state: string | undefined): Promise<void> {
  const { findStartProblems, findStartWarnings } = await import('../start-problems.js');
  for (const warning of await findStartWarnings(configuration))
    console.error(`warning: ${inOptions(warning)}`);
  const problems = await findStartProblems({ ...configuration, frontEnd: 'node' }, state);
  if (problems.length > 0) throw cannotStart(problems);
  console.log('The configuration can work.');
}

const VARIABLE = new RegExp(`(?<![\\w-])(?:${VARIABLES.join('|')})(?!\\w)`, 'g');

/** What is wrong, with the names that variables have here. */
function inOptions(problem: string): string {
  return problem.replace(VARIABLE, (name) => NAMES[name] ?? (SHARED.includes(name) ? name : PREFIX + name));
}

function cannotStart(problems: readonly string[]): CommandError {
  return new CommandError(
    `cannot start with this configuration: ${problems.map(inOptions).join('; ')}`,
    'correct them; `drs-verify guard --help` lists options and variables',
  );
}
