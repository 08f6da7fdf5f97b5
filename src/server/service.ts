import type { Logger } from 'pino';
import uWS from 'uWebSockets.js';
import { openEngine } from '../verifier/create-verifier.js';
import type { Configuration } from './configuration.js';
import { Metrics } from './metrics.js';
import { Routes } from './routes.js';

/** A running service. */
export interface Service {
  /** The port it listens on. */
  readonly port: number;
  /** Answers what is in flight, then stops. */
  close(): Promise<void>;
}

const DRAIN_MS = 10_000;
const DRAIN_POLL_MS = 10;

/**
 * Starts the service.
 *
 * @throws Error where the address cannot be listened on, or the revocation store cannot be opened
 */
export async function startService(configuration: Configuration, log: Logger): Promise<Service> {
  const metrics = new Metrics();
  const engine = await openEngine(configuration, { log, observer: metrics.observer });
  const routes = new Routes({ engine, configuration, metrics, log });
  metrics.watch(engine, routes);
  const app = uWS.App().any('/*', routes.handle);
  let socket: uWS.us_listen_socket;
  try {
    socket = await listen(app, configuration);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return {
    port: uWS.us_socket_local_port(socket),
    close: async () => {
      routes.isDraining = true;
      // The listen socket stays open, so that health checks see 503 and not a refused connection.
      const deadline = performance.now() + DRAIN_MS;
      while (routes.open > 0 && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
      }
      if (routes.open > 0)
        log.warn({ open: routes.open }, 'requests were cut off: they took too long to drain');
      app.close();
      await engine.close();
    },
  };
}

// What the published types leave out: a host together with options, and the constant itself.
interface ExclusiveListen {
  listen(
    host: string,
    port: number,
    options: number,
    callback: (socket: uWS.us_listen_socket | false) => void,
  ): void;
}
const { LIBUS_LISTEN_EXCLUSIVE_PORT } = uWS as unknown as { LIBUS_LISTEN_EXCLUSIVE_PORT: number };

function listen(app: uWS.TemplatedApp, { host, port }: Configuration): Promise<uWS.us_listen_socket> {
  return new Promise((resolve, reject) => {
    // Without this option a second process shares the port without an error, and takes half the requests.
    (app as unknown as ExclusiveListen).listen(host, port, LIBUS_LISTEN_EXCLUSIVE_PORT, (socket) => {
      if (socket !== false) resolve(socket);
      else {
        reject(
          new Error(
            `cannot listen on ${host}:${port}: another process has the port, or the address is not this machine's; ` +
              'stop that process, or set HOST and PORT',
          ),
        );
      }
    });
  });
}
