import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Protocol } from '../../gate/codes.js';
import { BUILD } from '../observe/build-info.js';
import type { Configuration } from '../configuration/configuration.js';
import { Opened, openCore } from '../core.js';
import { showAddress } from '../http/front-end.js';
import { openNode } from '../http/node/node.js';
import { ServedCertificate } from '../http/listen/certificate.js';
import { divideForGuard } from '../load/connections.js';
import { PerClientSlots } from '../load/per-client-slots.js';
import { openTracing } from '../observe/tracing.js';
import { Server, type Route } from '../http/serve.js';
import { limitOf } from '../routes/table.js';
import { closingMsOf, endGracefully } from '../main.js';
import { GuardRoute } from './guard-route.js';
import type { Destination } from './target.js';
import { Upstream } from './upstream.js';

const POLL_MS = 10;

/** A proxy that listens. */
export interface HttpGuard {
  readonly url: string;
  /** Reads the certificate, the routes and the trusted roots again. @throws Error if they cannot be used; the old ones stay */
  reload(): Promise<void>;
  /** Answers what is under way, for `SHUTDOWN_GRACE_SECS` at most, and closes. */
  close(): Promise<void>;
}

/**
 * Runs a reverse proxy in front of a tool server, until a signal ends it.
 *
 * @throws Error if it cannot listen, or cannot open a store, a log or the routes
 */
export async function runHttpGuard(
  configuration: Configuration,
  { protocol, destination }: { readonly protocol: Protocol; readonly destination: Destination },
  log: Logger,
): Promise<void> {
  const guard = await openHttpGuard(configuration, { protocol, destination }, log);
  endGracefully({ log, delayMs: closingMsOf(configuration), skip: ['SIGHUP'], close: () => guard.close() });
  process.on(
    'SIGHUP',
    () =>
      void guard.reload().then(
        () => log.info('SIGHUP: certificate, routes and trusted roots were read again'),
        (error: unknown) =>
          log.error(
            { err: error },
            'certificate, routes or trusted roots could not be read again: the old ones still hold',
          ),
      ),
  );
  // This comes last, since a program that waits for this line may send a signal at once.
  log.info({ ...BUILD, url: guard.url, protocol, to: destination.origin }, 'listening');
}

/** Opens a reverse proxy in front of a tool server. @throws as {@link runHttpGuard} */
export async function openHttpGuard(
  configuration: Configuration,
  { protocol, destination }: { readonly protocol: Protocol; readonly destination: Destination },
  log: Logger,
): Promise<HttpGuard> {
  const opened = new Opened();
  try {
    const certificate = ServedCertificate.read(configuration);
    const { verdicts, metrics, engine, gatekeeper, gate } = await openCore(configuration, log, opened);
    const upstream = opened.add(new Upstream(destination.origin, log));
    const context = { gate, configuration, verdicts };
    const { http: connections, upstream: slots } = divideForGuard(configuration, log);
    const route = new GuardRoute({
      ...{ protocol, destination, context, upstream, gatekeeper, log },
      slots: new PerClientSlots(slots),
    });
    const everything: Route = {
      ...{ endpoint: 'gate', methods: [], isProxied: true, takesQuery: true, serve: route.judge },
      rateLimit: limitOf(configuration),
    };
    const tracing = await openTracing();
    const server = new Server({ configuration, gatekeeper, metrics, log, tracing });
    const handle = server.handlerOf({ routes: new Map(), unknown: everything });
    const frontEnd = opened.add(
      openNode({
        ...{ handle, connections, certificate: certificate?.current ?? null },
        requestTimeoutSecs: configuration.requestTimeoutSecs,
      }),
    );
    const { host } = configuration;
    const port = await frontEnd.listen({ host, port: configuration.port, isShared: false });
    const shown = showAddress({ host, port });
    return {
      url: `${certificate === null ? 'http' : 'https'}://${shown}`,
      reload: async () => {
        certificate?.reload([frontEnd]);
        gate.routes.reload();
        await engine.rootsFile?.reload();
      },
      close: async () => {
        gatekeeper.isLeaving = true;
        frontEnd.stopListening();
        const deadline = performance.now() + configuration.shutdownGraceSecs * 1000;
        while (server.open + upstream.open > 0 && performance.now() < deadline) await sleep(POLL_MS);
        await opened.close();
      },
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}
