import type { Logger } from 'pino';
import { addressOf, type Configuration } from './configuration/configuration.js';
import { closingOnError, type Closers } from './closers.js';
import { openCore, readinessOf } from './core.js';
import { divideConnections, type Connections } from './load/connections.js';
import { UNIX_PEER } from './http/client-address.js';
import { leave, listen, reload, ServedCertificate } from './http/listen/listen.js';
import { loadFrontEnd } from './http/load-front-end.js';
import { loadGrpc } from './grpc/open.js';
import type { GrpcFrontEnd } from './grpc/server.js';
import { METRICS, show } from './observe/metrics/metrics-table.js';
import { routeTables } from './routes/table.js';
import { Server, type Table } from './http/serve.js';
import { openTracing } from './observe/tracing.js';

export type Service = Awaited<ReturnType<typeof startService>>;

/**
 * Starts the service.
 *
 * @throws Error if it cannot listen on the address, or cannot open a store or a log
 */
export const startService = (configuration: Configuration, log: Logger) =>
  closingOnError((opened) => openService(configuration, log, opened));

async function openService(configuration: Configuration, log: Logger, opened: Closers) {
  const { requestTimeoutSecs, metricsAddr, grpcPort: wantedGrpcPort, host } = configuration;
  const certificate = new ServedCertificate(configuration);
  const loaded = await loadFrontEnd(configuration.frontEnd);
  log[loaded.isFallback ? 'warn' : 'info'](
    { frontEnd: loaded.name },
    `the front end is ${loaded.name === 'uws' ? 'uWebSockets.js' : 'node:http'}: ${loaded.reason}`,
  );
  const core = await openCore(configuration, log, opened);
  const { metrics } = core;
  const tracing = await openTracing();
  const readiness = () => readinessOf(core, configuration);
  const context = { ...core, configuration, log, tracing, readiness };
  const server = new Server(context);
  const tables = routeTables(context);
  const connections = divideConnections(configuration, log);
  show(metrics.registry, METRICS, { ...context, server, connections, certificate });
  const open = (table: Table, limited: Connections) => {
    const handle = server.handlerOf(table);
    const shared = { handle, isRefusing: () => core.gatekeeper.isRefusing, requestTimeoutSecs };
    const options = { ...shared, connections: limited, certificate: certificate.current };
    return certificate.servedBy(opened.add(loaded.open(options)));
  };
  let grpc: GrpcFrontEnd | null = null;
  /** `null` if gRPC is off. */
  let grpcPort: number | null = null;
  if (wantedGrpcPort !== undefined && connections.grpc !== null) {
    const { openServer } = await loadGrpc();
    const { gateLimit: rateLimit } = tables;
    const its = { connections: connections.grpc, certificate: certificate.current, rateLimit };
    grpc = certificate.servedBy(opened.add(openServer({ ...context, ...its })));
    grpcPort = await grpc.listen(host, wantedGrpcPort);
  }
  const named = metricsAddr === undefined ? null : addressOf(metricsAddr);
  // Each process shows only its own metrics, so processes must not share this port.
  const internal = named && connections.metrics && open(tables.internal, connections.metrics);
  const frontEnd = open({ ...tables.service, peer: configuration.listen && UNIX_PEER }, connections.http);
  const port = await listen(frontEnd, configuration, opened);
  const metricsPort = internal ? await internal.listen({ ...named, isShared: false }) : port;
  return {
    /** 0 for a Unix socket. */
    port,
    metricsPort,
    grpcPort,
    frontEnd: loaded.name,
    /** Maximum number of open connections; more are closed at once. */
    maxConnections: connections.http.limit + (connections.grpc?.limit ?? 0),
    reload: () => reload(core, certificate, log),
    /** Stops the service, as {@link leave} says, and closes all connections. @param isUrgent skips the delay */
    close: async (isUrgent = false): Promise<void> => {
      const open = () => server.open + metrics.openCalls;
      await leave(context, frontEnd, open, isUrgent, () => grpc?.drain());
      await opened.close();
    },
  };
}
