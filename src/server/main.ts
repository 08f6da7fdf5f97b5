import closeWithGrace from 'close-with-grace';
import { pino, type Logger } from 'pino';
import { OptionsError } from '../engine/options.js';
import {
  addressOf,
  readConfiguration,
  VARIABLES,
  warningsAbout,
  type Configuration,
} from './configuration.js';
import { printableUrl } from './printable-url.js';
import { startService, type Service } from './service.js';

/** Time after the grace period to close stores and logs. */
const CLOSING_MS = 5000;

/**
 * Runs the service until a signal ends it. Never throws. An invalid configuration ends the process with exit code 2
 * before it listens. If a port or a store cannot be opened, the exit code is 1.
 *
 * @param env the environment; see {@link VARIABLES}
 * @param isCheck only checks the configuration and ends the process: exit code 0 if it is valid, else 2
 */
export async function serve(env: NodeJS.ProcessEnv, isCheck = false): Promise<void> {
  let configuration: Configuration;
  try {
    configuration = readConfiguration(env);
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    console.error(`drs-verify cannot start with this configuration:\n  ${error.problems.join('\n  ')}`);
    console.error(`It reads ${VARIABLES.join(', ')}; docs/configuration.md explains each.`);
    process.exit(2);
  }
  if (isCheck) {
    for (const warning of warningsAbout(env, configuration)) console.error(`warning: ${warning}`);
    console.log('The configuration can work.');
    process.exit(0);
  }
  const log = openLog(configuration);
  for (const warning of warningsAbout(env, configuration)) log.warn(warning);
  let service: Service;
  try {
    service = await startService(configuration, log);
  } catch (error) {
    log.fatal({ err: error }, 'the service cannot start');
    console.error(`drs-verify cannot start: ${(error as Error).message}`);
    process.exit(1);
  }
  stopOnSignals(configuration, service, log);
  // Last: whoever waits for this line may send a signal at once.
  announce(configuration, service, log);
}

/**
 * Writes each line synchronously. With pino's buffering, the process would not end if the reader of standard output is
 * gone: pino retries the last lines forever. After a write error, nothing more is logged.
 */
function openLog({ logLevel }: Configuration): Logger {
  const output = pino.destination({ dest: 1, sync: true });
  output.on('error', () => (output.write = () => true));
  return pino({ name: 'drs-verify', level: logLevel }, output);
}

function stopOnSignals(
  { shutdownDelaySecs, shutdownGraceSecs, logLevel }: Configuration,
  service: Service,
  log: Logger,
): void {
  const delay = (shutdownDelaySecs + shutdownGraceSecs) * 1000 + CLOSING_MS;
  closeWithGrace(
    {
      delay,
      logger: false,
      skip: ['SIGHUP', 'SIGUSR2'],
      onSecondSignal: (signal) => log.warn({ signal }, 'a second signal: ending at once'),
      onSecondError: (err) => log.fatal({ err }, 'an error that nothing caught, while shutting down'),
      onTimeout: () => log.error({ afterMs: delay }, 'shutting down took too long: ending at once'),
    },
    async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'an error that nothing caught');
      log.info({ signal, shutdownDelaySecs }, 'shutting down: what is in flight is answered first');
      await service.close(err !== undefined);
      log.info('stopped');
    },
  );
  process.on('SIGHUP', () => {
    service.reopenLogs().then(
      () => log.info('SIGHUP: the decision log was opened anew; the configuration is read at the start only'),
      (error: unknown) =>
        log.error({ err: error }, 'the decision log could not be opened anew: the old file is written on'),
    );
  });
  process.on('SIGUSR2', () => {
    log.level = log.level === 'debug' ? logLevel : 'debug';
    log.warn({ logLevel: log.level }, 'SIGUSR2 changed the log level');
  });
}

function announce(
  {
    host,
    metricsAddr,
    drsAdminToken,
    statusListBaseUrl,
    revocationStore,
    revocationStorePath,
    workerThreads,
  }: Configuration,
  { port, metricsPort, grpcPort, frontEnd, maxConnections }: Service,
  log: Logger,
): void {
  const urlOf = (name: string, at: number) => `http://${name.includes(':') ? `[${name}]` : name}:${at}`;
  const url = urlOf(host, port);
  const metricsHost = metricsAddr === undefined ? host : (addressOf(metricsAddr)?.host ?? host);
  log.info(
    {
      host,
      port,
      url,
      ...(grpcPort === null ? {} : { grpcPort }),
      metricsUrl: `${urlOf(metricsHost, metricsPort)}/metrics`,
      frontEnd,
      workerThreads,
      maxConnections: Number.isFinite(maxConnections) ? maxConnections : null,
      statusList: statusListBaseUrl === undefined ? null : printableUrl(statusListBaseUrl),
      revocationStore: revocationStore === 'redis' ? 'redis' : (revocationStorePath ?? 'memory'),
      adminEndpoint: drsAdminToken === undefined ? 'off' : 'on',
    },
    'listening',
  );
}
