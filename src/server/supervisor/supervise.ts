import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import closeWithGrace from 'close-with-grace';
import type { Logger } from 'pino';
import { resourcesHere } from '../../engine/resources.js';
import { addressOf, type Configuration } from '../configuration.js';
import { cannotListen } from '../front-end/front-end.js';
import { shareOut } from './share-out.js';
import { StartError } from './service-process.js';
import { Supervisor } from './supervisor.js';

/** A process that was replaced has so long besides the grace: idle connections last up to 12 s. */
const RETIRE_MS = 20_000;
/** For what a process does after its own time to stop is over. */
const SPARE_MS = 2_000;
const CLOSING_MS = 5_000;

/**
 * Runs `PROCESSES` processes on one port until a signal ends them. Never throws: it ends with the exit codes that a single
 * process has.
 *
 * @param env what each process gets, but for its shares
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
  const delay = (shutdownDelaySecs + shutdownGraceSecs) * 1000 + CLOSING_MS + SPARE_MS;
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
  process.on('SIGHUP', () => void supervisor.roll());
  process.on('SIGUSR2', () => supervisor.toggleLogLevel());
  try {
    Object.assign(childEnv, await findAddresses(configuration));
    const facts = await supervisor.start();
    log.info({ ...facts, processes, cores: resources.cores, shares }, 'listening');
  } catch (error) {
    // A process has said itself why it does not start.
    if (error instanceof StartError) process.exit(error.code);
    fail(1, error);
  }
}

/** The addresses on which every process listens, free ports filled in. @throws Error where somebody listens there */
async function findAddresses({ host, port, metricsAddr }: Configuration): Promise<Record<string, string>> {
  const PORT = String(await findPort(host, port));
  const metrics = metricsAddr === undefined ? null : addressOf(metricsAddr);
  if (metrics === null) return { PORT };
  const metricsPort = await findPort(metrics.host, metrics.port);
  return { PORT, METRICS_ADDR: `${metricsAddr?.replace(/:\d+$/, '')}:${metricsPort}` };
}

/**
 * Processes that share a port do not notice another service on it, which would take a part of the connections: so this asks
 * for the port alone first.
 */
async function findPort(host: string, port: number): Promise<number> {
  const server = createServer().listen({ host, port, exclusive: true });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new Error(cannotListen(host, port).message, { cause: error });
  }
  const found = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
  return found;
}
