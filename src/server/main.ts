import closeWithGrace from 'close-with-grace';
import { pino, type Logger } from 'pino';
import { OptionsError } from '../verifier/options.js';
import { readConfiguration, VARIABLES, type Configuration } from './configuration.js';
import { startService, type Service } from './service.js';

/** Longer than the service takes to drain, so that only a shutdown that hangs is cut short. */
const SHUTDOWN_MS = 15_000;

/**
 * Runs the service until a signal ends it. Never throws: a configuration that cannot work ends the process with exit
 * code 2 before it listens, and a port or a store that cannot be opened with 1.
 *
 * @param env the environment; see {@link VARIABLES}
 */
export async function serve(env: NodeJS.ProcessEnv): Promise<void> {
  let configuration: Configuration;
  try {
    configuration = readConfiguration(env);
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    console.error(`drs-verify cannot start with this configuration:\n  ${error.problems.join('\n  ')}`);
    console.error(`It reads ${VARIABLES.join(', ')}; README.md explains each.`);
    process.exit(2);
  }
  const log = pino({ name: 'drs-verify', level: configuration.logLevel });
  let service: Service;
  try {
    service = await startService(configuration, log);
  } catch (error) {
    log.fatal({ err: error }, 'the service cannot start');
    console.error(`drs-verify cannot start: ${(error as Error).message}`);
    process.exit(1);
  }
  closeWithGrace({ delay: SHUTDOWN_MS, logger: false }, async ({ signal, err }) => {
    if (err) log.fatal({ err }, 'an error that nothing caught');
    log.info({ signal }, 'shutting down: what is in flight is answered first');
    await service.close();
    log.info('stopped');
  });
  // Last, since whoever reads this line may send a signal at once.
  announce(configuration, service, log);
}

function announce(
  { host, drsAdminToken, statusListBaseUrl, revocationStorePath, workerThreads }: Configuration,
  { port }: Service,
  log: Logger,
): void {
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  log.info(
    {
      host,
      port,
      url,
      workerThreads,
      statusList: statusListBaseUrl ?? null,
      revocationStore: revocationStorePath ?? 'memory',
      adminEndpoint: drsAdminToken === undefined ? 'off' : 'on',
    },
    'listening',
  );
}
