import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { openEngine } from '../engine/create-verifier.js';
import { Admission } from './admission.js';
import type { Configuration } from './configuration.js';
import { Connections, maxConnectionsHere } from './front-end/connections.js';
import { loadFrontEnd, type LoadedFrontEnd } from './front-end/load.js';
import type { FrontEndName } from './front-end/front-end.js';
import { Metrics } from './metrics.js';
import { QueueWait } from './queue-wait.js';
import { Routes } from './routes.js';

/** A running service. */
export interface Service {
  /** The port it listens on. */
  readonly port: number;
  readonly frontEnd: FrontEndName;
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
  const loaded = await loadFrontEnd(configuration.frontEnd);
  logChoice(loaded, log);
  const metrics = new Metrics();
  const engine = await openEngine(configuration, { log, observer: metrics.observer });
  const admission = new Admission(configuration, new QueueWait(engine.signatures));
  const routes = new Routes({ engine, configuration, admission, metrics, log });
  const connections = new Connections(chooseMaxConnections(configuration, log), log);
  metrics.watch(engine);
  metrics.watchHttp(routes, admission, connections);
  const { host, requestTimeoutSecs } = configuration;
  const frontEnd = loaded.open({ handle: routes.handle, connections, requestTimeoutSecs });
  let port: number;
  try {
    port = await frontEnd.listen(host, configuration.port);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return {
    port,
    frontEnd: loaded.name,
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
      frontEnd.close();
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

function logChoice({ name, reason, isFallback }: LoadedFrontEnd, log: Logger): void {
  const message = `the front end is ${name === 'uws' ? 'uWebSockets.js' : 'node:http'}: ${reason}`;
  log[isFallback ? 'warn' : 'info']({ frontEnd: name }, message);
}
