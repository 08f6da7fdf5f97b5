import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { addressOf, listenAddressOf, type Configuration } from './configuration/configuration.js';
import { openCore, Opened } from './core.js';
import { divideConnections } from './load/connections.js';
import { type Certificate, ServedCertificate } from './http/listen/certificate.js';
import { type FrontEndName, type LoadedFrontEnd, loadFrontEnd } from './http/front-end.js';
import { loadGrpc } from './grpc/open.js';
import type { GrpcFrontEnd } from './grpc/server.js';
import { show } from './observe/metrics/exposition.js';
import { METRICS } from './observe/metrics/metrics-table.js';
import { Readiness } from './routes/readiness.js';
import { routeTables } from './routes/table.js';
import { Server } from './http/serve.js';
import { openTracing } from './observe/tracing.js';

/** A running service. */
export interface Service {
  /** The port it listens on; 0 for a Unix socket. */
  readonly port: number;
  /** The port of `/metrics`: the same port unless `METRICS_ADDR` is set. */
  readonly metricsPort: number;
  /** The port on which gateways ask over gRPC; `null` if it is off. */
  readonly grpcPort: number | null;
  readonly frontEnd: FrontEndName;
  /** Maximum number of open connections; more are closed at once. */
  readonly maxConnections: number;
  /**
   * Stops the service. For `SHUTDOWN_DELAY_SECS`, `/readyz` fails and everything else is served. Then open requests get
   * up to `SHUTDOWN_GRACE_SECS` to finish. Then all connections are closed.
   *
   * @param isUrgent skips the delay
   */
  close(isUrgent?: boolean): Promise<void>;
  /** Reopens the log files, after they were renamed (log rotation). */
  reopenLogs(): Promise<void>;
  /**
   * Reads the routes of the gate again.
   *
   * @returns the file; `null` if there is none
   * @throws Error if they cannot be used; the old ones stay
   */
  reloadRoutes(): string | null;
  /**
   * Reads the trusted roots again.
   *
   * @returns their number; `null` if they do not come from a file
   * @throws TrustedRootsError if the file has a fault; the old ones stay
   */
  reloadRoots(): Promise<number | null>;
  /**
   * Reads the certificate again. Open connections keep the old one.
   *
   * @returns the new certificate; `null` if the service has no TLS
   * @throws Error if it cannot be served; the old one stays
   */
  reloadCertificate(): Certificate | null;
}

const DRAIN_POLL_MS = 10;

/**
 * Starts the service.
 *
 * @throws Error if it cannot listen on the address, or cannot open a store or a log
 */
export async function startService(configuration: Configuration, log: Logger): Promise<Service> {
  const opened = new Opened();
  try {
    return await openService(configuration, log, opened);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function openService(configuration: Configuration, log: Logger, opened: Opened): Promise<Service> {
  const certificate = ServedCertificate.read(configuration);
  const loaded = await loadFrontEnd(configuration.frontEnd);
  logChoice(loaded, log);
  const core = await openCore(configuration, log, opened);
  const { decisions, verdicts, metrics, engine, gatekeeper, gate } = core;
  const tracing = await openTracing();
  const readiness = new Readiness(gatekeeper, engine, gate.replays, configuration);
  const context = {
    ...{ engine, configuration, gatekeeper, readiness, metrics, log, verdicts, tracing },
    ...{ gate: gate.decider, gateReplays: gate.replays, gateSigner: gate.signer },
    scrape: () => metrics.registry.metrics(),
  };
  const server = new Server(context);
  const tables = routeTables(context);
  const connections = divideConnections(configuration, log);
  const sources = {
    ...{ metrics, engine, gatekeeper, server, connections, configuration, decisions, certificate },
    replays: { verify: engine.replays, gate: gate.replays },
  };
  show(metrics.registry, METRICS, sources);
  const { requestTimeoutSecs, metricsAddr, grpcPort: wantedGrpcPort } = configuration;
  const listenAddress = listenAddressOf(configuration);
  const common = { requestTimeoutSecs, certificate: certificate?.current ?? null };
  const ofCallers = listenAddress.kind === 'unix' ? { ...common, certificate: null } : common;
  let grpc: GrpcFrontEnd | null = null;
  let grpcPort: number | null = null;
  if (wantedGrpcPort !== undefined && connections.grpc !== null) {
    const { decider } = gate;
    const { gateLimit: rateLimit } = tables;
    const shared = { configuration, readiness, gatekeeper, decider, verdicts, rateLimit, log };
    const { openServer } = await loadGrpc();
    grpc = opened.add(
      openServer({
        ...{ ...shared, connections: connections.grpc, certificate: common.certificate },
        metrics: metrics.grpc,
      }),
    );
    grpcPort = await grpc.listen(configuration.host, wantedGrpcPort);
  }
  const address = metricsAddr === undefined ? null : addressOf(metricsAddr);
  const internal =
    address &&
    connections.metrics &&
    opened.add(
      loaded.open({ handle: server.handlerOf(tables.internal), connections: connections.metrics, ...common }),
    );
  const frontEnd = opened.add(
    loaded.open({ handle: server.handlerOf(tables.service), connections: connections.http, ...ofCallers }),
  );
  const port = await frontEnd.listen(listenAddress);
  // Each process shows only its own metrics, so processes must not share this port.
  const metricsPort =
    address && internal ? await internal.listen({ kind: 'tcp', ...address, isShared: false }) : port;
  return {
    port,
    metricsPort,
    grpcPort,
    frontEnd: loaded.name,
    maxConnections: connections.http.limit + (connections.grpc?.limit ?? 0),
    reopenLogs: () => verdicts.reopen(),
    reloadRoutes: () => {
      gate.routes.reload();
      return gate.routes.file;
    },
    reloadRoots: async () => (await engine.rootsFile?.reload()) ?? null,
    reloadCertificate: () =>
      certificate?.reload([frontEnd, internal, grpc].filter((one) => one !== null)) ?? null,
    close: async (isUrgent = false) => {
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
      const open = () => server.open + metrics.grpc.openCalls;
      const deadline = performance.now() + shutdownGraceSecs * 1000;
      while (open() > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS);
      if (open() > 0) log.warn({ open: open() }, 'requests were cut off: they took too long to drain');
      await opened.close();
    },
  };
}

function logChoice({ name, reason, isFallback }: LoadedFrontEnd, log: Logger): void {
  const message = `the front end is ${name === 'uws' ? 'uWebSockets.js' : 'node:http'}: ${reason}`;
  log[isFallback ? 'warn' : 'info']({ frontEnd: name }, message);
}
