import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { ConnectionInjector } from '@grpc/grpc-js';
import { secureContextOf, type Certificate } from '../front-end/certificate.js';
import type { Connections } from '../front-end/connections.js';

// The HTTP front ends give a silent connection the same time.
const SILENT_MS = 10_000;
/** The HTTP/2 preface and an empty SETTINGS frame: every client sends at least this at once. */
const PREFACE_BYTES = 24 + 9;

/** Accepts connections for gRPC. They are counted together with those of HTTP, and closed if they stay silent. */
export interface GrpcListener {
  /**
   * Listens; other processes cannot share the port.
   *
   * @returns the port
   * @throws Error if it cannot listen on the address
   */
  listen(host: string, port: number): Promise<number>;
  /** Serves another certificate to new connections. Has no effect without TLS. */
  useCertificate(certificate: Certificate): void;
  /** Closes the port and all connections. */
  close(): void;
}

/** Makes a listener that passes connections to the library. It uses TLS if there is a certificate. */
export function openListener(
  injector: ConnectionInjector,
  connections: Connections,
  certificate: Certificate | null,
): GrpcListener {
  const sockets = new Set<Socket>();
  const handOver = (socket: Socket) => {
    const timer = setTimeout(() => {
      if (socket.bytesRead < PREFACE_BYTES) socket.destroy();
    }, SILENT_MS);
    socket.once('close', () => clearTimeout(timer));
    // Without a listener, an error would end the process. The library notices by itself that the connection is gone.
    socket.on('error', () => {});
    injector.injectConnection(socket);
  };
  const tlsServer =
    certificate === null
      ? null
      : createTlsServer(
          {
            ...secureContextOf(certificate),
            ALPNProtocols: ['h2'],
            handshakeTimeout: SILENT_MS,
            noDelay: true,
          },
          handOver,
        );
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
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', () => reject(cannotListen(host, port)));
        server.listen({ host, port, exclusive: true }, () => resolve((server.address() as AddressInfo).port));
      }),
    useCertificate: (next) => tlsServer?.setSecureContext(secureContextOf(next)),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function cannotListen(host: string, port: number): Error {
  return new Error(
    `cannot listen on ${host}:${port} for gRPC: another process has the port, or the address is not this machine's; ` +
      'stop that process, or choose another address (HOST and GRPC_PORT)',
  );
}
