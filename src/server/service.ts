import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import './uws-settings.js';
import uWS from 'uWebSockets.js';
import { openEngine } from '../engine/create-verifier.js';
import { Admission } from './admission.js';
import type { Configuration } from './configuration.js';
import { Connections, maxConnectionsHere } from './connections.js';
import { openGate } from './gate-open.js';
import { Metrics } from './metrics.js';
import { QueueWait } from './queue-wait.js';
import { Routes } from './routes.js';

/** A running service. */
export interface Service {
  /** The port it listens on. */
  readonly port: number;
  /** The connections it holds open at most; more are closed at once. */
  readonly maxConnections: number;
  /**
   * Stops it: `/readyz` fails for `SHUTDOWN_DELAY_SECS` while all else is served, then what is in flight is answered, for
   * `SHUTDOWN_GRACE_SECS` at most, then connections are closed.
   *
   * @param isUrgent leaves out the delay
   */
  close(isUrgent?: boolean): Promise<void>;
}

const DRAIN_POLL_MS = 10;

/**
 * Starts the service.
 *
 * @throws Error where the address cannot be listened on, or the revocation store cannot be opened
 */
export async function startService(configuration: Configuration, log: Logger): Promise<Service> {
  const metrics = new Metrics();
  const engine = await openEngine(configuration, { log, observer: metrics.observer });
  const admission = new Admission(configuration, new QueueWait(engine.signatures));
  const gate = await openGate({ engine, configuration, admission, metrics, log }).catch(
    async (error: unknown) => {
      await engine.close();
      throw error;
    },
  );
  const routes = new Routes({
    engine,
    configuration,
    admission,
    gate: gate.decider,
    jwks: gate.jwks,
    metrics,
    log,
  });
  const connections = new Connections(chooseMaxConnections(configuration, log), log);
  metrics.watch(engine);
  metrics.watchHttp(routes, admission, connections);
  const app = uWS.App().any('/*', routes.handle);
  (app as unknown as FilteredApp).filter((connection, change) => {
    if (change < 0) connections.closed();
    else if (!connections.opened()) connection.close();
  });
  let socket: uWS.us_listen_socket;
  try {
    socket = await listen(app, configuration);
  } catch (error) {
    await gate.close();
    await engine.close();
    throw error;
  }
  return {
    port: uWS.us_socket_local_port(socket),
    maxConnections: connections.limit,
    close: async (isUrgent = false) => {
      const { shutdownDelaySecs, shutdownGraceSecs } = configuration;
      admission.isLeaving = true;
      if (!isUrgent) await sleep(shutdownDelaySecs * 1000);
      // The listen socket stays open, so that health checks see 503 and not a refused connection.
      admission.isDraining = true;
      const deadline = performance.now() + shutdownGraceSecs * 1000;
      while (routes.open > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS);
      if (routes.open > 0)
        log.warn({ open: routes.open }, 'requests were cut off: they took too long to drain');
      app.close();
      await gate.close();
      await engine.close();
    },
  };
}

function chooseMaxConnections({ maxConnections }: Configuration, log: Logger): number {
  const possible = maxConnectionsHere();
  if (maxConnections === undefined || maxConnections <= possible) return maxConnections ?? possible;
  log.warn(
    { maxConnections, possible },
    'the limit of open files allows fewer connections than MAX_CONNECTIONS; raise it (ulimit -n, LimitNOFILE)',
  );
  return possible;
}

// What the published types leave out: the filter, a host together with options, and the constant itself.
interface FilteredApp {
  /** @param onChange is called with 1 for a connection that has come, and with -1 for one that has gone */
  filter(onChange: (connection: { close(): void }, change: number) => void): void;
}
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
