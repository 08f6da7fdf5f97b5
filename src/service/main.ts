import { getHeapStatistics } from 'node:v8';
import { type Logger, pino } from 'pino';
import { OptionsError } from '../verifier/options.js';
import { BUILD } from './observe/build-info.js';
import { findStartProblems } from './check.js';
import {
  type Configuration,
  addressOf,
  listenAddressOf,
  readConfiguration,
  warningsAbout,
} from './configuration/configuration.js';
import { showAddress, type ListenAddress } from './http/listen/listen-address.js';
import { releaseSignals } from './early-signals.js';
import { warningsAboutMemory } from './configuration/memory-needs.js';
import { notifyReady } from './notify.js';
import { printableUrl } from '../revocation/printable-url.js';
import type { Service } from './service.js';
import closeWithGrace, { type AllEvents } from 'close-with-grace';

/**
 * Runs the service until a signal ends it. Never throws. An invalid configuration ends the process with exit code 2
 * before it listens. If a port or a store cannot be opened, the exit code is 1.
 *
 * @param env the environment; docs/configuration.md lists the variables
 * @param isCheck only checks the configuration and what it names, and ends the process: exit code 0 if the service can
 *   start, else 2
 */
export async function serve(env: NodeJS.ProcessEnv, isCheck = false): Promise<void> {
  const configuration = readOrExit(env);
  const warnings = [
    ...warningsAbout(env, configuration),
    ...warningsAboutMemory(configuration, getHeapStatistics().heap_size_limit),
  ];
  if (isCheck) {
    for (const warning of warnings) console.error(`warning: ${warning}`);
    const problems = await findStartProblems(configuration);
    if (problems.length > 0) {
      console.error(`drs-verify cannot start with this configuration here:\n  ${problems.join('\n  ')}`);
      process.exit(2);
    }
    console.log('The configuration can work.');
    process.exit(0);
  }
  const log = openLog(configuration);
  for (const warning of warnings) log.warn(warning);
  let service: Service | null = null;
  endGracefully({
    log,
    delayMs: closingMsOf(configuration),
    close: async ({ signal, err }) => {
      const { shutdownDelaySecs } = configuration;
      log.info({ signal, shutdownDelaySecs }, 'shutting down: what is in flight is answered first');
      await service?.close(err !== undefined);
    },
  });
  const started = await orExit(log, async () => {
    // `--check` does without it.
    const { startService } = await import('./service.js');
    return startService(configuration, log);
  });
  service = started;
  process.on('SIGHUP', () => void reload(started, log));
  process.on('SIGUSR2', () => toggleLogLevel(log, configuration));
  releaseSignals();
  // This comes last, since a program that waits for this line may send a signal at once.
  log.info(factsOf(configuration, started), 'listening');
  notifyReady(env, log);
}

/** Reads the configuration, or ends the process with 2, saying what is wrong with it. */
function readOrExit(env: NodeJS.ProcessEnv): Configuration {
  try {
    return readConfiguration(env);
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    console.error(`drs-verify cannot start with this configuration:\n  ${error.problems.join('\n  ')}`);
    console.error('`drs-verify serve --help` lists the variables; docs/configuration.md explains each.');
    process.exit(2);
  }
}

/** Starts something, or ends the process, saying why it cannot start: with 2 if that is due to the configuration, else 1. */
async function orExit<T>(log: Logger, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    log.fatal({ err: error }, 'the service cannot start');
    console.error(`drs-verify cannot start: ${(error as Error).message}`);
    process.exit(error instanceof OptionsError ? 2 : 1);
  }
}

/** Reads again what can be read again. Never rejects: each part says in the log what went wrong. */
async function reload(service: Service, log: Logger): Promise<void> {
  reloadCertificate(service, log);
  reloadRoutes(service, log);
  await reloadRoots(service, log);
  await service.reopenLogs().then(
    () => log.info('SIGHUP: the decision log was reopened; the configuration is only read at the start'),
    (error: unknown) =>
      log.error({ err: error }, 'the decision log could not be reopened: the old file is still written'),
  );
}

/**
 * Opens the log on standard output, or on standard error (2). Writes each line synchronously. With pino's buffering, the process would not end if the reader of standard output is
 * gone: pino retries the last lines forever. After a write error, nothing more is logged.
 */
export function openLog({ logLevel }: Pick<Configuration, 'logLevel'>, dest: 1 | 2 = 1): Logger {
  const output = pino.destination({ dest, sync: true });
  output.on('error', () => (output.write = () => true));
  // pino's own appends the causes' messages, which ours have in their words.
  const serializers = { err: pino.stdSerializers.errWithCause };
  return pino({ name: 'drs-verify', level: logLevel, serializers }, output);
}

/** Switches between the configured log level and `debug`. */
function toggleLogLevel(log: Logger, { logLevel }: Configuration): void {
  log.level = log.level === 'debug' ? logLevel : 'debug';
  log.warn({ logLevel: log.level }, 'SIGUSR2 changed the log level');
}

function reloadCertificate(service: Service, log: Logger): void {
  try {
    const certificate = service.reloadCertificate();
    if (certificate === null) return;
    const { certFile, fingerprint, expiresAt } = certificate;
    const until = new Date(expiresAt * 1000).toISOString();
    log.info(
      { certFile, fingerprint, until },
      'SIGHUP: the certificate was reloaded; new connections get it',
    );
  } catch (error) {
    log.error({ err: error }, 'the certificate could not be reloaded: the old one is still served');
  }
}

function reloadRoutes(service: Service, log: Logger): void {
  try {
    const file = service.reloadRoutes();
    if (file !== null) log.info({ file }, 'SIGHUP: the routes of the gate were reloaded');
  } catch (error) {
    log.error({ err: error }, 'the routes of the gate could not be reloaded: the old ones still hold');
  }
}

async function reloadRoots(service: Service, log: Logger): Promise<void> {
  try {
    const roots = await service.reloadRoots();
    if (roots !== null) log.info({ roots }, 'SIGHUP: the trusted roots were reloaded');
  } catch {
    // The roots have logged it.
  }
}

/** What is logged about a service that listens. */
export function factsOf(
  configuration: Configuration,
  { port, metricsPort, grpcPort, frontEnd, maxConnections }: Service,
) {
  const { host, metricsAddr, drsAdminToken, statusListBaseUrl, workerThreads } = configuration;
  const { revocationStore, revocationStorePath } = configuration;
  const at = listenAddressOf(configuration);
  const isUnix = at.kind === 'unix';
  const scheme = configuration.tlsCertFile === undefined ? 'http' : 'https';
  const urlOf = (address: ListenAddress) =>
    address.kind === 'unix' ? showAddress(address) : `${scheme}://${showAddress(address)}`;
  const url = urlOf(isUnix ? at : { ...at, port });
  const metricsHost = metricsAddr === undefined ? null : (addressOf(metricsAddr)?.host ?? host);
  const metricsUrl =
    metricsHost === null
      ? url
      : urlOf({ kind: 'tcp', host: metricsHost, port: metricsPort, isShared: false });
  return {
    ...BUILD,
    host: isUnix ? null : host,
    port: isUnix ? null : port,
    url,
    ...(grpcPort === null ? {} : { grpcPort }),
    metricsPort,
    metricsUrl: metricsUrl.startsWith('unix:') ? metricsUrl : `${metricsUrl}/metrics`,
    frontEnd,
    workerThreads,
    maxConnections: Number.isFinite(maxConnections) ? maxConnections : null,
    statusList: statusListBaseUrl === undefined ? null : printableUrl(statusListBaseUrl),
    revocationStore: revocationStore === 'redis' ? 'redis' : (revocationStorePath ?? 'memory'),
    adminEndpoint: drsAdminToken === undefined ? 'off' : 'on',
  };
}

/** Time after the grace period to close stores and logs. */
const CLOSING_MS = 5000;

/** How a process ends. */
interface Ending {
  readonly log: Logger;
  /** Milliseconds after which it ends in any case. */
  readonly delayMs: number;
  /** Signals that do not end it. */
  readonly skip?: readonly (NodeJS.Signals & AllEvents)[];
  /** Called once, with the signal or the error that nothing caught, if one of them ends the process. */
  readonly close: (why: { readonly signal?: NodeJS.Signals; readonly err?: Error }) => Promise<void>;
}

/**
 * Ends this process on a signal or an error that nothing caught; at once after a second signal or error. The exit code is 0 if it was asked to end, and did so in time.
 */
export function endGracefully(ending: Ending): void {
  const { log, delayMs, skip = ['SIGHUP', 'SIGUSR2'], close } = ending;
  closeWithGrace(
    {
      delay: delayMs,
      logger: false,
      skip: [...skip],
      onSecondSignal: (signal) => log.warn({ signal }, 'a second signal: ending at once'),
      onSecondError: (err) => log.fatal({ err }, 'an error that nothing caught, while shutting down'),
      onTimeout: () => log.error({ afterMs: delayMs }, 'shutting down took too long: ending at once'),
    },
    async (why) => {
      if (why.err) log.fatal({ err: why.err }, 'an error that nothing caught');
      try {
        await close(why);
      } catch (err) {
        log.error({ err }, 'shutting down failed');
        throw err;
      }
      log.info('stopped');
    },
  );
}

/** Milliseconds after which a process that was told to stop ends in any case. */
export function closingMsOf({ shutdownDelaySecs, shutdownGraceSecs }: Configuration): number {
  return (shutdownDelaySecs + shutdownGraceSecs) * 1000 + CLOSING_MS;
}
