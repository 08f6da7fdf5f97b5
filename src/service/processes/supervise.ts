import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import closeWithGrace from 'close-with-grace';
import type { Logger } from 'pino';
import { resourcesHere } from '../../verifier/resources.js';
import { addressOf, type Configuration } from '../configuration/configuration.js';
import { releaseSignals } from '../early-signals.js';
import { cannotListen } from '../http/front-end.js';
import { notifyReady } from '../notify.js';
import { shareOut } from './share-out.js';
import { StartError } from './service-process.js';
import { Supervisor } from './supervisor.js';

/** A replaced process has this time to end, besides the grace period: idle connections last up to 12 s. */
const RETIRE_MS = 20_000;
/** Time for a process to end after its own time to stop is over. */
const MARGIN_MS = 2_000;
const CLOSING_MS = 5_000;

/**
 * Runs `PROCESSES` processes on one port until a signal ends them. Never throws: errors end this process, with the same
 * exit codes as those of a single process.
 *
 * @param env the environment of each process, before {@link shareOut} changes it
 */
export async function supervise(
  env: NodeJS.ProcessEnv,
  configuration: Configuration,
  log: Logger,
): Promise<void> {
  const { processes, shutdownDelaySecs, shutdownGraceSecs } = configuration;
  const resources = resourcesHere();
  const fail = (code: number, error: unknown): never => {
    log.fatal({ err: error }, 'the service cannot start');
    console.error(`drs-verify cannot start: ${(error as Error).message}`);
    process.exit(code);
  };
  let shares: Record<string, string> = {};
  try {
    shares = shareOut(env, processes, resources);
  } catch (error) {
    fail(2, error);
  }
  const childEnv: NodeJS.ProcessEnv = { ...env, ...shares, PROCESSES: '1', SHARE_PORT: '1' };
  const supervisor = new Supervisor({
    processes,
    env: childEnv,
    log,
    retireMs: RETIRE_MS + shutdownGraceSecs * 1000,
    onGivenUp: (code) => {
      log.fatal('no process serves, and none can be started: giving up');
      supervisor.kill();
      process.exit(code);
    },
  });
  const delay = (shutdownDelaySecs + shutdownGraceSecs) * 1000 + CLOSING_MS + MARGIN_MS;
  closeWithGrace(
    {
      delay,
      logger: false,
      skip: ['SIGHUP', 'SIGUSR2'],
      onSecondSignal: (signal) => {
        log.warn({ signal }, 'a second signal: ending at once');
        supervisor.kill();
      },
      onSecondError: (err) => {
        log.fatal({ err }, 'an error that nothing caught, while shutting down');
        supervisor.kill();
      },
      onTimeout: () => {
        log.error({ afterMs: delay }, 'shutting down took too long: ending at once');
        supervisor.kill();
      },
    },
    async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'an error that nothing caught');
      log.info({ signal, processes }, 'shutting down all processes');
      await supervisor.stop();
      log.info('all processes have stopped');
    },
  );
  try {
    Object.assign(childEnv, await findAddresses(configuration));
    const facts = await supervisor.start();
    process.on('SIGHUP', () => void supervisor.roll());
    process.on('SIGUSR2', () => supervisor.toggleLogLevel());
    releaseSignals();
    log.info({ ...facts, processes, cores: resources.cores, shares }, 'listening');
    notifyReady(env, log);
  } catch (error) {
    // The process itself has logged why it does not start.
    if (error instanceof StartError) process.exit(error.code);
    fail(1, error);
  }
}

/** The addresses of all processes, with port 0 replaced by a free port. @throws Error if a port is taken */
async function findAddresses({ host, port, metricsAddr }: Configuration): Promise<Record<string, string>> {
  const PORT = String(await findPort(host, port));
  const metrics = metricsAddr === undefined ? null : addressOf(metricsAddr);
  if (metrics === null) return { PORT };
  const metricsPort = await findPort(metrics.host, metrics.port);
  return { PORT, METRICS_ADDR: `${metricsAddr?.replace(/:\d+$/, '')}:${metricsPort}` };
}

/**
 * Processes that share a port do not notice another service on it, which would take part of the connections. So this
 * first listens on the port alone, which fails if it is taken.
 */
async function findPort(host: string, port: number): Promise<number> {
  const server = createServer().listen({ host, port, exclusive: true });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new Error(cannotListen({ kind: 'tcp', host, port, isShared: true }).message, { cause: error });
  }
  const found = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
  return found;
}
