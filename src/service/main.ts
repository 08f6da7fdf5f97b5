import { Buffer } from 'node:buffer';
import { execFile } from 'node:child_process';
import { getHeapStatistics } from 'node:v8';
import { type Logger, pino } from 'pino';
import { OptionsError } from '../verifier/options.js';
import { BUILD } from './observe/build-info.js';
import {
  type Configuration,
  addressOf,
  readConfiguration,
  warningsAbout,
  warningsAboutIdle,
  warningsAboutMemory,
} from './configuration/configuration.js';
import { showAddress } from './http/front-end.js';
import { releaseSignals } from './early-signals.js';
import type { Service } from './service.js';
import closeWithGrace, { type AllEvents } from 'close-with-grace';

/**
 * Runs the service until a signal ends it. Never throws. An invalid configuration ends the process with exit code 2
 * before it listens. If a port or a store cannot be opened, the exit code is 1.
 *
 * @param env the environment; docs/configuration.md lists the variables
 */
export async function serve(env: NodeJS.ProcessEnv): Promise<void> {
  // Node cuts a buffer of up to half of this from a shared one, and makes a larger one by itself, which takes a microsecond. So
  // large is what the bundle of a gate decodes to: 4 KiB and more.
  Buffer.poolSize = 32 * 1024;
  const { configuration, warnings } = readOrExit(env);
  const log = openLog(configuration);
  for (const warning of warnings) log.warn(warning);
  let service: Service | null = null;
  endGracefully({
    log,
    configuration,
    close: async ({ signal, err }) => {
      const { shutdownDelaySecs } = configuration;
      log.info({ signal, shutdownDelaySecs }, 'shutting down: what is in flight is answered first');
      await service?.close(err !== undefined);
    },
  });
  try {
    // `drs-verify serve --check` does without it.
    const { startService } = await import('./service.js');
    service = await startService(configuration, log);
  } catch (error) {
    log.fatal({ err: error }, 'the service cannot start');
    console.error(`drs-verify cannot start: ${(error as Error).message}`);
    process.exit(error instanceof OptionsError ? 2 : 1);
  }
  process.on('SIGHUP', () => void service.reload());
  process.on('SIGUSR2', () => toggleLogLevel(log, configuration));
  releaseSignals();
  // This comes last, since a program that waits for this line may send a signal at once.
  log.info(factsOf(configuration, service), 'listening');
  notifyReady(env, log);
}

/** Reads the configuration, and what to warn of; or ends the process with 2, saying what is wrong with it. */
export function readOrExit(given: NodeJS.ProcessEnv) {
  const links = ['PORT', 'GRPC_PORT'].filter((name) => given[name]?.includes('://'));
  const env = { ...given, ...Object.fromEntries(links.map((name) => [name, undefined])) };
  try {
    const configuration = readConfiguration(env);
    const warnings = [
      ...links.map(
        (name) =>
          `${name} is ${JSON.stringify(given[name])}, as Kubernetes sets it for a Service of that name: it is ignored; ` +
          'set enableServiceLinks: false in the pod',
      ),
      ...warningsAbout(configuration),
      ...warningsAboutIdle(env, configuration),
      ...warningsAboutMemory(configuration, getHeapStatistics().heap_size_limit),
    ];
    return { configuration, warnings };
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    console.error(`drs-verify cannot start with this configuration:\n  ${error.problems.join('\n  ')}`);
    console.error('`drs-verify serve --help` lists the variables; docs/configuration.md explains each.');
    process.exit(2);
  }
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

function toggleLogLevel(log: Logger, { logLevel }: Configuration): void {
  log.level = log.level === 'debug' ? logLevel : 'debug';
  log.warn({ logLevel: log.level }, 'SIGUSR2 changed the log level');
}

/**
 * Tells systemd that the service is ready, for units with `Type=notify`. `NOTIFY_SOCKET` is a datagram socket, which Node cannot
 * use, so systemd's own program sends the message (`NotifyAccess=all`). If it cannot, systemd ends the service after
 * `TimeoutStartSec`.
 */
function notifyReady({ NOTIFY_SOCKET = '', PATH }: NodeJS.ProcessEnv, log: Logger): void {
  if (NOTIFY_SOCKET === '') return;
  execFile('systemd-notify', ['--ready'], { env: { NOTIFY_SOCKET, PATH } }, (err) => {
    if (err !== null)
      log.warn({ err }, 'systemd-notify could not tell systemd that the service is ready: use Type=exec');
  });
}

export function factsOf(
  configuration: Configuration,
  { port, metricsPort, grpcPort, frontEnd, maxConnections }: Service,
) {
  const { host, metricsAddr, listen } = configuration;
  const metricsHost = metricsAddr === undefined ? host : (addressOf(metricsAddr)?.host ?? host);
  return {
    ...BUILD,
    host,
    port,
    url: urlOf(configuration, port),
    ...(listen && { host: null, port: null }),
    ...(grpcPort !== null && { grpcPort }),
    metricsPort,
    metricsUrl:
      listen && metricsAddr === undefined
        ? showAddress(listen.path)
        : `${urlOf({ ...configuration, host: metricsHost, listen: undefined }, metricsPort)}/metrics`,
    frontEnd,
    maxConnections: Number.isFinite(maxConnections) ? maxConnections : null,
  };
}

/** The address of what listens, as it is printed. */
export function urlOf(
  { listen, host, tlsCertFile }: Pick<Configuration, 'listen' | 'host' | 'tlsCertFile'>,
  port: number,
): string {
  if (listen !== undefined) return showAddress(listen.path);
  return `${tlsCertFile === undefined ? 'http' : 'https'}://${showAddress({ host, port })}`;
}

/** Time after the grace period to close stores and logs; then the process ends in any case. */
const CLOSING_MS = 5000;

interface Ending {
  readonly log: Logger;
  readonly configuration: Configuration;
  /** Signals that do not end it. */
  readonly skip?: readonly (NodeJS.Signals & AllEvents)[];
  /** Called once, with the signal or the error that nothing caught, if one of them ends the process. */
  readonly close: (why: { readonly signal?: NodeJS.Signals; readonly err?: Error }) => Promise<void>;
}

/**
 * Ends this process on a signal or an error that nothing caught; at once after a second signal or error. The exit code is 0 if it was asked to end, and did so in time.
 */
export function endGracefully(ending: Ending): void {
  const { log, configuration, skip = ['SIGHUP', 'SIGUSR2'], close } = ending;
  const { shutdownDelaySecs, shutdownGraceSecs } = configuration;
  const delayMs = (shutdownDelaySecs + shutdownGraceSecs) * 1000 + CLOSING_MS;
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
