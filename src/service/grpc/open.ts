import type { Logger } from 'pino';
import type { Admission } from '../load/admission.js';
import type { Configuration } from '../configuration/configuration.js';
import type { Certificate } from '../http/certificate.js';
import type { Connections } from '../load/connections.js';
import type { GateDecider } from '../routes/gate-decider.js';
import type { RateLimit } from '../load/rate-limit.js';
import type { Readiness } from '../routes/readiness.js';
import type { VerdictLogs } from '../observe/verdict-logs.js';
import type { GrpcMetrics } from '../observe/grpc-metrics.js';

/** What gRPC shares with the HTTP side. */
export interface GrpcContext {
  readonly configuration: Configuration;
  readonly readiness: Readiness;
  readonly admission: Admission;
  readonly decider: GateDecider;
  readonly verdicts: VerdictLogs;
  readonly connections: Connections;
  /** The certificate to serve; `null` if the service has no TLS. */
  readonly certificate: Certificate | null;
  /** The gate's rate limit, shared by all its transports; `null` if there is none. */
  readonly rateLimit: RateLimit | null;
  readonly metrics: GrpcMetrics;
  readonly log: Logger;
}

/** The part of the service that speaks gRPC. */
export interface GrpcFrontEnd {
  /** Number of open calls. */
  readonly open: number;
  /**
   * Listens; other processes cannot share the port.
   *
   * @returns the port
   * @throws Error if it cannot listen on the address
   */
  listen(host: string, port: number): Promise<number>;
  /** Serves another certificate to new connections. Has no effect without TLS. */
  useCertificate(certificate: Certificate): void;
  /** Tells clients to send no more calls over their connections. */
  drain(): void;
  /** Closes the port and all connections. */
  close(): void;
}

/**
 * Opens the gRPC front end. It needs optional packages, which are only loaded here.
 *
 * @throws Error if they are not installed
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
