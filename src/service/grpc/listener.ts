import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { ConnectionInjector } from '@grpc/grpc-js';
import { secureContextOf, type Certificate } from '../http/listen/certificate.js';
import type { Connections } from '../load/connections.js';
import { GONE_PEER, MAX_BACKLOG } from '../http/front-end.js';

// The HTTP front ends give a connection the same time for its first request.
const FIRST_CALL_MS = 10_000;

/** Accepts connections for gRPC, and closes those on which no call comes. */
export interface GrpcListener {
  /**
   * Listens; other processes cannot share the port.
   *
   * @returns the port
   * @throws Error if it cannot listen on the address
   */
  listen(host: string, port: number): Promise<number>;
  /**
   * A call has come.
   *
   * @param peer address and port of the other end of its connection, as the library writes them
   */
  called(peer: string): void;
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
  /** For each connection on which no call has come yet, what closes it. */
  const uncalled = new Map<string, NodeJS.Timeout>();
  const handOver = (socket: Socket) => {
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const timer = setTimeout(() => socket.destroy(), FIRST_CALL_MS);
    uncalled.set(peer, timer);
    socket.once('close', () => {
      clearTimeout(timer);
      if (uncalled.get(peer) === timer) uncalled.delete(peer);
    });
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
            handshakeTimeout: FIRST_CALL_MS,
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
    if (!connections.opened(() => socket.remoteAddress ?? GONE_PEER)) socket.destroy();
    else if (tlsServer === null) handOver(socket);
  });
  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', () => reject(cannotListen(host, port)));
        server.listen({ host, port, exclusive: true, backlog: MAX_BACKLOG }, () =>
          resolve((server.address() as AddressInfo).port),
        );
      }),
    called: (peer) => {
      clearTimeout(uncalled.get(peer));
      uncalled.delete(peer);
    },
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
