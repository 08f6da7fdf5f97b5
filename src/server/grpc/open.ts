import type { Logger } from 'pino';
import type { Engine } from '../../engine/engine.js';
import type { Admission } from '../admission.js';
import type { Configuration } from '../configuration.js';
import type { Certificate } from '../front-end/certificate.js';
import type { Connections } from '../front-end/connections.js';
import type { GateDecider } from '../gate-decider.js';
import type { RateLimit } from '../rate-limit.js';
import type { VerdictLogs } from '../verdict-logs.js';
import type { GrpcMetrics } from './metrics.js';

/** What gRPC shares with the HTTP side. */
export interface GrpcContext {
  readonly configuration: Configuration;
  readonly engine: Engine;
  readonly admission: Admission;
  readonly decider: GateDecider;
  readonly verdicts: VerdictLogs;
  readonly connections: Connections;
  /** What is served; `null` where the service has no TLS. */
  readonly certificate: Certificate | null;
  /** That of the gate, over all its transports; `null` where there is none. */
  readonly rateLimit: RateLimit | null;
  readonly metrics: GrpcMetrics;
  readonly log: Logger;
}

/** What speaks gRPC. */
export interface GrpcFrontEnd {
  /** Calls that are not over. */
  readonly open: number;
  /**
   * Listens; other processes cannot share the port.
   *
   * @returns the port
   * @throws Error where the address cannot be listened on
   */
  listen(host: string, port: number): Promise<number>;
  /** Serves another certificate to new connections. Only where there was one before. */
  useCertificate(certificate: Certificate): void;
  /** Tells clients to send no more calls over the connections that they have. */
  drain(): void;
  /** Closes the port and all connections. */
  close(): void;
}

/**
 * Opens the gRPC front end, with packages that are loaded for it only.
 *
 * @throws Error where they are not installed
 */
export async function openGrpc(context: GrpcContext): Promise<GrpcFrontEnd> {
  let loaded: typeof import('./server.js');
  try {
    loaded = await import('./server.js');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error(
      'GRPC_PORT is set, but @grpc/grpc-js or protobufjs is not installed: install the optional dependencies ' +
        '(npm install without --omit=optional), or unset GRPC_PORT',
      { cause: error },
    );
  }
  return loaded.openServer(context);
}
