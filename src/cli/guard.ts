import { findStartProblems } from '../service/check.js';
import { addressOf, warningsAbout, type Configuration } from '../service/configuration/configuration.js';
import { readGuardConfiguration } from '../service/guard/configuration.js';
import { destinationOf } from '../service/guard/target.js';
import { openLog } from '../service/main.js';
import { printableUrl } from '../revocation/printable-url.js';
import { OptionsError } from '../verifier/options.js';
import { CommandError } from './command-error.js';

/** The options of `drs guard`. */
export interface GuardOptions {
  readonly trustedRoot?: readonly string[];
  readonly toolServer?: string;
  readonly routes?: string;
  readonly to?: string;
  readonly listen?: string;
  readonly protocol?: 'mcp' | 'a2a' | 'http';
  readonly check?: true;
}

/**
 * Runs a gate in front of a tool server, until the tool server or a signal ends it.
 *
 * @param command of a server over stdio; empty if the tool server is at an address
 * @throws CommandError if the options cannot be used, or if something cannot be opened
 */
export async function guard(command: readonly string[], options: GuardOptions): Promise<void> {
  const { trustedRoot = [], check } = options;
  const [program, ...args] = command;
  const problem = findProblem(command, options);
  if (problem !== null) throw new CommandError(problem, 'see `drs-verify guard --help` for examples');
  const trustsAnybody = trustedRoot.length === 1 && trustedRoot[0] === 'any';
  const env = environmentOf(options, trustsAnybody);
  const configuration = read(
    () => readGuardConfiguration(env, { trustsAnybody, isStdio: program !== undefined }),
    options,
  );
  const http = options.to === undefined ? null : proxyOf(options.to, options, configuration);
  if (check) {
    await checkAll(configuration, options);
    return;
  }
  const log = openLog(configuration, program === undefined ? 1 : 2);
  for (const warning of warningsAbout(configuration)) log.warn(warning);
  try {
    // Each loads what only it needs.
    if (program !== undefined) {
      const { runStdioGuard } = await import('../service/guard/run-stdio.js');
      await runStdioGuard(configuration, [program, ...args], log);
    } else if (http !== null) {
      const { runHttpGuard } = await import('../service/guard/run-http.js');
      await runHttpGuard(configuration, http, log);
    }
  } catch (error) {
    const message = inOptions((error as Error).message, options);
    // What the problem is with is named, unless it is the program.
    throw program === undefined
      ? new CommandError(message, 'check what the options and variables name (--check)')
      : new CommandError(
          `cannot guard ${program}: ${message}`,
          'check the command behind --, and what the options and variables name (--check)',
        );
  }
}

function findProblem(command: readonly string[], options: GuardOptions): string | null {
  const { trustedRoot = [], to, listen, protocol, routes } = options;
  if (to === undefined) {
    if (command.length === 0)
      return 'there is no tool server: name its command behind --, or its address with --to';
    for (const [name, value] of Object.entries({ listen, protocol, routes }))
      if (value !== undefined)
        return `--${name} is for a tool server over HTTP (--to), and this one speaks over stdio`;
  } else if (command.length > 0)
    return 'there are two tool servers, that of --to and a command: expected one';
  if (trustedRoot.length > 1 && trustedRoot.includes('any'))
    return '--trusted-root is any, and principals besides: expected any alone, or principals';
  if (listen !== undefined && addressOf(listen) === null)
    return `--listen is ${JSON.stringify(listen)}, expected an address and a port such as 127.0.0.1:8443`;
  if (routes !== undefined && protocol !== 'http') return '--routes is for --protocol http alone';
  return null;
}

/** What is guarded over HTTP. */
function proxyOf(to: string, { protocol = 'mcp' }: GuardOptions, { gateRoutes }: Configuration) {
  if (protocol === 'http' && gateRoutes === undefined)
    throw new CommandError(
      'there is no table of routes, so that every call would be refused',
      'name its file (--routes, GATE_ROUTES); --routes any compares the body alone, at the path of --to',
    );
  const destination = destinationOf(to, protocol, gateRoutes !== 'any');
  if ('problem' in destination)
    throw new CommandError(
      `--to is ${JSON.stringify(printableUrl(to))}: ${destination.problem}`,
      'give the address of the tool server, such as http://127.0.0.1:3000/mcp',
    );
  return { protocol, destination };
}

/** The environment of this process, with the options in place of their variables. */
function environmentOf(
  { trustedRoot, toolServer, listen, routes }: GuardOptions,
  trustsAnybody: boolean,
): Record<string, string | undefined> {
  const address = listen === undefined ? null : addressOf(listen);
  // The option counts alone.
  const roots = {
    TRUSTED_ROOTS: trustsAnybody ? undefined : trustedRoot?.join(),
    TRUSTED_ROOTS_FILE: undefined,
  };
  return {
    ...process.env,
    ...(trustedRoot === undefined ? {} : roots),
    ...(toolServer === undefined ? {} : { SERVER_IDENTITY: toolServer }),
    ...(routes === undefined ? {} : { GATE_ROUTES: routes }),
    ...(address === null ? {} : { HOST: address.host, PORT: String(address.port) }),
  };
}

/** A problem, with the names of the options that stand for variables here. */
function inOptions(problem: string, { trustedRoot, toolServer, routes, listen }: GuardOptions): string {
  const given = { TRUSTED_ROOTS: trustedRoot, SERVER_IDENTITY: toolServer, GATE_ROUTES: routes };
  const names = {
    TRUSTED_ROOTS: '--trusted-root',
    SERVER_IDENTITY: '--tool-server',
    GATE_ROUTES: '--routes',
  };
  const named = problem.replace(/^(TRUSTED_ROOTS|SERVER_IDENTITY|GATE_ROUTES)(?= )/, (variable) =>
    given[variable as keyof typeof given] === undefined ? variable : names[variable as keyof typeof names],
  );
  return listen === undefined ? named : named.replace('(HOST and PORT, ', '(--listen, ');
}

function read(readAll: () => Configuration, options: GuardOptions): Configuration {
  try {
    return readAll();
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    throw cannotStart(error.problems, options);
  }
}

async function checkAll(configuration: Configuration, options: GuardOptions): Promise<void> {
  const problems = await findStartProblems({ ...configuration, frontEnd: 'node' });
  if (problems.length > 0) throw cannotStart(problems, options);
  console.log('The configuration can work.');
}

function cannotStart(problems: readonly string[], options: GuardOptions): CommandError {
  const named = problems.map((problem) => inOptions(problem, options));
  return new CommandError(
    `cannot start with this configuration: ${named.join('; ')}`,
    'correct them; `drs-verify guard --help` lists options and variables',
  );
}
