import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import {
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  status as Status,
  type ConnectionInjector,
  type handleUnaryCall,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import { cannotListen, MAX_BACKLOG } from '../http/front-end.js';
import { secureContextOf, type Certificate } from '../http/listen/certificate.js';
import { GRPC_METHODS, type GrpcMethod } from '../observe/metrics/metrics.js';
import { answerChecks, type GrpcContext } from './calls.js';
import { MAX_BESIDES_BYTES, readMessage, writeMessage } from './messages.js';

/** Of a connection. RFC 9113, section 6.5.2, recommends no fewer. */
const MAX_STREAMS = 100;
/**
 * How many calls of a connection may be cancelled at once, and each second. A gateway cancels what passes its time limit; beyond this, the
 * connection ends with all its calls (CVE-2023-44487). Node 20 knows no such options: there it is 1,000, and 33 a second.
 */
const RESETS = { streamResetBurst: 10_000, streamResetRate: 10_000 };
const IDLE_MS = 300_000;
/** How often a silent connection is pinged, to find out whether its other end is still there. */
const KEEPALIVE_MS = 30_000;
const KEEPALIVE_TIMEOUT_MS = 10_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;

export type GrpcFrontEnd = ReturnType<typeof openServer>;

/**
 * Opens the gRPC front end. It is for gateways, which are trusted: limits are those of the library, and nothing sees a
 * message before it is complete. Only `open.ts` imports this file, since it needs packages that may be missing.
 */
export function openServer(context: GrpcContext) {
  const { maxBodyBytes, shutdownGraceSecs } = context.configuration;
  const server = new Server({
    // Of a compressed message, also what it is unpacked to.
    'grpc.max_receive_message_length': maxBodyBytes + MAX_BESIDES_BYTES,
    'grpc.max_concurrent_streams': MAX_STREAMS,
    'grpc.max_connection_idle_ms': IDLE_MS,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    'grpc.enable_channelz': 0,
    interceptors: [watchCalls(context)],
  });
  // The library passes what is here on to `http2.createServer`, and has no option for it.
  Object.assign((server as unknown as { readonly commonServerOptions: object }).commonServerOptions, RESETS);
  const handlers: Record<GrpcMethod, handleUnaryCall<Buffer, Buffer>> = {
    '/envoy.service.auth.v3.Authorization/Check': answerChecks(context),
    '/grpc.health.v1.Health/Check': checkHealth(context),
  };
  // Messages are bytes here: handlers read and write them.
  const asItIs = (bytes: Buffer) => bytes;
  for (const [path, handle] of Object.entries(handlers))
    server.register(path, handle, asItIs, asItIs, 'unary');
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const listener = openListener(injector, context);
  return {
    ...listener,
    /** Tells gateways to send no more calls over their connections. */
    drain: () => injector.drain(shutdownGraceSecs * 1000),
    /** Closes the port and all connections. */
    close: () => {
      server.forceShutdown();
      listener.close();
    },
  };
}

/** Counts calls, and ends those whose message does not come in time. */
function watchCalls({ configuration, metrics }: GrpcContext): ServerInterceptor {
  return ({ path }, call) => {
    const startedAt = performance.now();
    // If the service sends none, the gateway did not wait for it, or the library has refused the message.
    let status = Status.CANCELLED;
    let timer: NodeJS.Timeout | undefined;
    const watched = new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          // The first event of each call: it is not called for one that its client has cancelled already.
          onReceiveMetadata: (metadata, pass) => {
            metrics.openCalls++;
            timer = setTimeout(() => {
              const details = 'the message did not come within REQUEST_TIMEOUT_SECS';
              watched.sendStatus({ code: Status.DEADLINE_EXCEEDED, details });
            }, configuration.requestTimeoutSecs * 1000);
            pass(metadata);
          },
          onReceiveHalfClose: (pass) => {
            clearTimeout(timer);
            pass();
          },
          // The last event, also of a call that has its answer.
          onCancel: () => {
            clearTimeout(timer);
            metrics.openCalls--;
            metrics.countCall(path, Status[status], performance.now() - startedAt);
          },
        }),
      sendStatus: (sent, next) => {
        status = sent.code;
        next(sent);
      },
    });
    return watched;
  };
}

/** The empty name stands for all of them. */
const SERVICES = new Set(Object.keys(GRPC_METHODS).flatMap((path) => path.split('/').slice(0, 2)));
const SERVING = 1;
const NOT_SERVING = 2;

/** `grpc.health.v1.Health`: serving while `/readyz` says that the service is ready. */
function checkHealth({ readiness }: Pick<GrpcContext, 'readiness'>): handleUnaryCall<Buffer, Buffer> {
  return ({ request }, reply) => {
    if (SERVICES.has(readMessage('HealthCheckRequest', request).service)) {
      const status = readiness().reason === null ? SERVING : NOT_SERVING;
      reply(null, writeMessage('HealthCheckResponse', { status }));
    } else reply({ code: Status.NOT_FOUND, details: 'there is no such service here' });
  };
}

/** Accepts connections, with TLS if there is a certificate, and passes them to the library. */
function openListener(injector: ConnectionInjector, { certificate, connections }: GrpcContext) {
  const sockets = new Set<Socket>();
  const handOver = (socket: Socket) => {
    // Without a listener, an error would end the process. The library notices by itself that the connection is gone.
    socket.on('error', () => {});
    injector.injectConnection(socket);
  };
  const options = { ALPNProtocols: ['h2'], handshakeTimeout: HANDSHAKE_TIMEOUT_MS, noDelay: true };
  const tlsServer =
    certificate === null ? null : createTlsServer({ ...secureContextOf(certificate), ...options }, handOver);
  const server = tlsServer ?? createServer({ noDelay: true });
  // Connections are counted before their TLS handshake, because that takes time and memory too.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      connections.closed();
    });
    if (!connections.opened()) socket.destroy();
    else if (tlsServer === null) handOver(socket);
  });
  return {
    /** Resolves with the port, which other processes cannot share. */
    listen: (host: string, port: number) =>
      new Promise<number>((resolve, reject) => {
        server.once('error', () =>
          reject(cannotListen({ host, port, isShared: false }, 'HOST and GRPC_PORT')),
        );
        server.listen({ host, port, exclusive: true, backlog: MAX_BACKLOG }, () =>
          resolve((server.address() as AddressInfo).port),
        );
      }),
    /** Serves another certificate to new connections. Has no effect without TLS. */
    useCertificate: (next: Certificate) => tlsServer?.setSecureContext(secureContextOf(next)),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
