import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { addressOf, type Configuration } from './configuration/configuration.js';
import { openCore, Opened, readinessOf, type Core } from './core.js';
import { divideConnections, type Connections } from './load/connections.js';
import { certificateOf, readCertificate } from './http/listen/certificate.js';
import { listenOnUnix } from './http/listen/unix-socket.js';
import { UNIX_PEER } from './http/client-address.js';
import { loadFrontEnd } from './http/load-front-end.js';
import { loadGrpc } from './grpc/open.js';
import type { GrpcFrontEnd } from './grpc/server.js';
import { METRICS, show } from './observe/metrics/metrics-table.js';
import { routeTables } from './routes/table.js';
import { Server, type Route, type ServerContext, type Table } from './http/serve.js';
import { openTracing } from './observe/tracing.js';

/** A running service. */
export type Service = Awaited<ReturnType<typeof startService>>;

const DRAIN_POLL_MS = 10;

/** What a relay has in place of the routes of a service, and of its connections. Its requests are read by `node:http`. */
export interface Relaying {
  /** Answers every request. */
  readonly routeOver: (core: Core) => Route;
  readonly hosts: ServerContext['hosts'];
  readonly rename?: ServerContext['rename'];
  readonly openReplays?: Parameters<typeof openCore>[3];
  readonly http: Connections;
  /** The number of requests whose answers the relay sends itself. */
  readonly open: () => number;
}

/**
 * Starts the service, or a relay.
 *
 * @throws Error if it cannot listen on the address, or cannot open a store or a log
 */
export async function startService(configuration: Configuration, log: Logger, relaying?: Relaying) {
  const opened = new Opened();
  try {
    return await openService(configuration, log, opened, relaying);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function openService(configuration: Configuration, log: Logger, opened: Opened, relaying?: Relaying) {
  const { requestTimeoutSecs, metricsAddr, grpcPort: wantedGrpcPort, host, listen } = configuration;
  let certificate = certificateOf(configuration);
  const loaded = await loadFrontEnd(relaying === undefined ? configuration.frontEnd : 'node');
  if (relaying === undefined)
    log[loaded.isFallback ? 'warn' : 'info'](
      { frontEnd: loaded.name },
      `the front end is ${loaded.name === 'uws' ? 'uWebSockets.js' : 'node:http'}: ${loaded.reason}`,
    );
  const core = await openCore(configuration, log, opened, relaying?.openReplays);
  const { verdicts, metrics, engine, gatekeeper, gate } = core;
  const tracing = await openTracing();
  const readiness = () => readinessOf(core, configuration);
  const context = { ...core, configuration, log, tracing, readiness };
  const server = new Server({ ...context, hosts: relaying?.hosts, rename: relaying?.rename });
  const tables = routeTables(context);
  const connections =
    relaying === undefined
      ? divideConnections(configuration, log)
      : { http: relaying.http, grpc: null, metrics: null };
  show(metrics.registry, METRICS, { ...context, server, connections, certificate: () => certificate });
  const open = (table: Table, limited: Connections) => {
    const handle = server.handlerOf(table);
    return opened.add(loaded.open({ handle, connections: limited, requestTimeoutSecs, certificate }));
  };
  let grpc: GrpcFrontEnd | null = null;
  /** `null` if gRPC is off. */
  let grpcPort: number | null = null;
  if (wantedGrpcPort !== undefined && connections.grpc !== null) {
    const { openServer } = await loadGrpc();
    const { gateLimit: rateLimit } = tables;
    grpc = opened.add(openServer({ ...context, connections: connections.grpc, certificate, rateLimit }));
    grpcPort = await grpc.listen(host, wantedGrpcPort);
  }
  const named = metricsAddr === undefined ? null : addressOf(metricsAddr);
  // Each process shows only its own metrics, so processes must not share this port.
  const internal = named && connections.metrics && open(tables.internal, connections.metrics);
  const table =
    relaying === undefined ? tables.service : { routes: new Map(), unknown: relaying.routeOver(core) };
  const frontEnd = open({ ...table, peer: listen && UNIX_PEER }, connections.http);
  /** 0 for a Unix socket. */
  let port = 0;
  if (listen !== undefined)
    opened.add(await listenOnUnix(frontEnd, listen.path, parseInt(configuration.listenMode, 8)));
  else port = await frontEnd.listen({ host, port: configuration.port, isShared: configuration.sharePort });
  const metricsPort = internal ? await internal.listen({ ...named, isShared: false }) : port;
  const again = async (
    part: keyof typeof metrics.failedReloads,
    reload: () => unknown,
    [name, done]: readonly [string, string],
  ) => {
    metrics.failedReloads[part] = 0;
    try {
      const facts = await reload();
      if (facts !== null) log.info(facts ?? {}, `SIGHUP: ${name} was ${done}`);
    } catch (err) {
      metrics.failedReloads[part] = 1;
      log.error({ err }, `${name} could not be ${done}: the old one stays`);
    }
  };
  return {
    port,
    metricsPort,
    grpcPort,
    frontEnd: loaded.name,
    /** Maximum number of open connections; more are closed at once. */
    maxConnections: connections.http.limit + (connections.grpc?.limit ?? 0),
    /**
     * Reads certificate, routes and trusted roots again, and reopens the decision log after it was renamed. Never rejects: each part
     * says in the log what went wrong, and keeps what it has.
     */
    reload: async (): Promise<void> => {
      const readAgain = () => {
        if (certificate === null) return null;
        const next = readCertificate(certificate);
        for (const listener of [frontEnd, internal, grpc]) listener?.useCertificate(next);
        certificate = next;
        const { certFile, fingerprint, expiresAt } = next;
        return { certFile, fingerprint, until: new Date(expiresAt * 1000).toISOString() };
      };
      await again('certificate', readAgain, ['the certificate', 'reloaded']);
      await again('routes', () => gate.reloadRoutes(), ['the table of routes', 'reloaded']);
      for (const lines of [engine.rootsFile, engine.toolsFile]) {
        // If it fails, they have logged it.
        const entries = await lines?.reload().catch(() => undefined);
        if (lines && entries !== undefined)
          log.info({ [lines.kind.fact]: entries }, `SIGHUP: the ${lines.kind.name} were reloaded`);
      }
      await again('decision_log', () => verdicts.decisions?.reopen(), ['the decision log', 'reopened']);
    },
    /**
     * Stops the service. For `SHUTDOWN_DELAY_SECS`, `/readyz` fails and everything else is served. Then open requests get
     * up to `SHUTDOWN_GRACE_SECS` to finish. Then all connections are closed.
     *
     * @param isUrgent skips the delay
     */
    close: async (isUrgent = false): Promise<void> => {
      const { shutdownDelaySecs, shutdownGraceSecs } = configuration;
      gatekeeper.isLeaving = true;
      if (configuration.sharePort) {
        // The others on the port get all new connections, but the kernel resets those that are not accepted yet: so this waits
        // until the event loop has just accepted some.
        await new Promise((resolve) => setImmediate(resolve));
        frontEnd.stopListening();
      }
      if (!isUrgent) await sleep(shutdownDelaySecs * 1000);
      // A listening socket that is not shared stays open, so that health checks get a 503 instead of a refused connection.
      gatekeeper.isDraining = true;
      grpc?.drain();
      const open = () => server.open + metrics.openCalls + (relaying?.open() ?? 0);
      const deadline = performance.now() + shutdownGraceSecs * 1000;
      while (open() > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS);
      if (open() > 0) log.warn({ open: open() }, 'requests were cut off: they took too long to drain');
      await opened.close();
    },
  };
}
