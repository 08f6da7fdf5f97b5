import {
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { GateCalls, type Received } from './calls.js';
import { PASS_RESPONSE } from './ext-mcp.js';
import { Health } from './health.js';
import { CallIntake, clientOfPeer } from './intake.js';
import { openListener } from './listener.js';
import { BESIDES_BYTES, readCheckRequest, readHealthRequest, readMcpRequest } from './messages.js';
import type { Logger } from 'pino';
import type { Admission } from '../load/admission.js';
import type { Configuration } from '../configuration/configuration.js';
import type { Certificate } from '../http/listen/certificate.js';
import type { Connections } from '../load/connections.js';
import type { GateDecider } from '../routes/gate-decider.js';
import type { RateLimit } from '../load/rate-limit.js';
import type { Readiness } from '../routes/readiness.js';
import type { VerdictLogs } from '../observe/logs/verdict-logs.js';
import type { GrpcMetrics } from '../observe/metrics/metrics.js';

const AUTHORIZATION = 'envoy.service.auth.v3.Authorization';
const EXT_MCP = 'agentgateway.dev.ext_mcp.ExtMcp';
const HEALTH = 'grpc.health.v1.Health';

const MAX_STREAMS = 256;
const IDLE_MS = 300_000;
/** How often a silent connection is pinged, to find out whether its other end is still there. */
const KEEPALIVE_MS = 30_000;
const KEEPALIVE_TIMEOUT_MS = 10_000;
/** Time for an answer besides the waits that have limits of their own. */
const MARGIN_MS = 10_000;

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

/** Opens the gRPC front end. Only `open.ts` imports this file, since it needs packages that may be missing. */
export function openServer(context: GrpcContext): GrpcFrontEnd {
  const { configuration, admission, readiness, metrics, connections } = context;
  const { maxBodyBytes, requestTimeoutSecs, statusFetchTimeoutMs, redisTimeoutMs, grpcProtocol } =
    configuration;
  const intake = new CallIntake(
    admission.memory,
    {
      messageMs: requestTimeoutSecs * 1000,
      answerMs: requestTimeoutSecs * 1000 + statusFetchTimeoutMs + redisTimeoutMs + MARGIN_MS,
    },
    ({ path, status, milliseconds, rejection }) => {
      const isQuestion = metrics.countCall(path, status, milliseconds);
      if (isQuestion && rejection !== null) context.decider.rejected('grpc', rejection);
    },
  );
  const watchCall: ServerInterceptor = ({ path, responseStream }, call) => {
    const peer = call.getPeer();
    listener.called(peer);
    if (!responseStream) intake.watch(path, clientOfPeer(peer), call);
    return new ServerInterceptingCall(call);
  };
  const server = new Server({
    'grpc.max_receive_message_length': maxBodyBytes + BESIDES_BYTES,
    'grpc.max_concurrent_streams': MAX_STREAMS,
    'grpc.max_connection_idle_ms': IDLE_MS,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    'grpc.enable_channelz': 0,
    interceptors: [watchCall],
  });
  const calls = new GateCalls({ ...context, protocol: grpcProtocol, maxBodyBytes });
  const health = new Health(() => readiness.reasons().length === 0, [AUTHORIZATION, EXT_MCP, HEALTH]);
  addService(server, AUTHORIZATION, { Check: unary(readCheckRequest, calls.check) });
  addService(server, EXT_MCP, {
    CheckRequest: unary(readMcpRequest, calls.checkMcp),
    CheckResponse: {
      // The message is not needed. Returning nothing would tell the library that none came.
      read: () => ({}),
      handle: (_: unknown, reply: (error: null, answer: Buffer) => void) => reply(null, PASS_RESPONSE),
    },
  });
  addService(server, HEALTH, {
    Check: { read: readHealthRequest, handle: health.check },
    Watch: { read: readHealthRequest, handle: health.watch, streams: true },
  });
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const listener = openListener(injector, connections, context.certificate);
  metrics.openCalls = intake;
  return {
    listen: (host, port) => listener.listen(host, port),
    useCertificate: (certificate) => listener.useCertificate(certificate),
    get open() {
      return intake.open;
    },
    drain: () => {
      health.close();
      injector.drain(configuration.shutdownGraceSecs * 1000);
    },
    close: () => {
      health.close();
      server.forceShutdown();
      listener.close();
    },
  };
}

/** A method of a service: how its message is read, and who answers. */
interface Method {
  readonly read: (bytes: Buffer) => unknown;
  readonly handle: UntypedServiceImplementation[string];
  readonly streams?: boolean;
}

function unary(read: Method['read'], handle: Method['handle']): Method {
  return { read: (bytes): Received<unknown> => ({ bytes: bytes.length, message: read(bytes) }), handle };
}

function addService(server: Server, service: string, methods: Readonly<Record<string, Method>>): void {
  const definition: Record<string, ServiceDefinition[string]> = {};
  const implementation: UntypedServiceImplementation = {};
  for (const [name, { read, handle, streams = false }] of Object.entries(methods)) {
    definition[name] = {
      path: `/${service}/${name}`,
      requestStream: false,
      responseStream: streams,
      requestSerialize: asItIs,
      requestDeserialize: read,
      responseSerialize: asItIs,
      responseDeserialize: asItIs,
    };
    implementation[name] = handle;
  }
  server.addService(definition, implementation);
}

/** Answers are already bytes. The functions that only a client needs are never called here. */
function asItIs(bytes: Buffer): Buffer {
  return bytes;
}
