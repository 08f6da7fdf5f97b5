import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Protocol } from '../../gate/codes.js';
import { BUILD } from '../observe/build-info.js';
import { listenAddressOf, type Configuration } from '../configuration/configuration.js';
import { Opened, openDeciding } from '../deciding.js';
import { BodyIntake } from '../http/body-intake.js';
import { showAddress } from '../http/listen/listen-address.js';
import { openNode } from '../http/node/node.js';
import { ServedCertificate } from '../http/listen/served-certificate.js';
import { divideForGuard } from '../load/connections.js';
import { Places } from '../load/places.js';
import { openTracing } from '../observe/tracing.js';
import { GateRoute } from '../routes/gate-route.js';
import { Readiness } from '../routes/readiness.js';
import { Routes } from '../routes/routes.js';
import { limitOf, type Route } from '../routes/table.js';
import { closingMsOf, endGracefully } from '../running.js';
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
    const { verdicts, metrics, engine, admission, gate } = await openDeciding(configuration, log, opened);
    const upstream = opened.add(new Upstream(destination.origin, log));
    const context = {
      ...{
        engine,
        configuration,
        admission,
        metrics,
        log,
        verdicts,
        gate: gate.decider,
        gateSigner: gate.signer,
      },
      gateReplays: gate.replays,
      readiness: new Readiness(admission, engine, gate.replays, configuration),
      tracing: await openTracing(),
      scrape: () => Promise.resolve(''),
    };
    const { http: connections, upstream: places } = divideForGuard(configuration, log);
    const route = new GuardRoute({
      ...{ protocol, destination, upstream, admission, log, places: new Places(places) },
      gate: new GateRoute(context, new BodyIntake(context)),
      origins: new Set(configuration.allowedOrigins),
    });
    const everything: Route = {
      ...{
        endpoint: 'gate',
        methods: [],
        rateLimit: limitOf(configuration),
        isProxied: true,
        takesQuery: true,
      },
      serve: (exchange, head, req) => route.serve(exchange, head, req),
    };
    const table = { routes: new Map<string, Route>(), unknown: everything };
    const routes = new Routes(context, { service: table, internal: table, gateLimit: null });
    const frontEnd = opened.add(
      openNode({
        ...{ handle: routes.handle, connections, certificate: certificate?.current ?? null },
        requestTimeoutSecs: configuration.requestTimeoutSecs,
      }),
    );
    const address = listenAddressOf(configuration);
    const port = await frontEnd.listen(address);
    const shown = showAddress({ kind: 'tcp', host: configuration.host, port, isShared: false });
    return {
      url: `${certificate === null ? 'http' : 'https'}://${shown}`,
      reload: async () => {
        certificate?.reload([frontEnd]);
        gate.routes.reload();
        await engine.rootsFile?.reload();
      },
      close: async () => {
        admission.isLeaving = true;
        frontEnd.stopListening();
        const deadline = performance.now() + configuration.shutdownGraceSecs * 1000;
        while (routes.open + upstream.open > 0 && performance.now() < deadline) await sleep(POLL_MS);
        await opened.close();
      },
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}
