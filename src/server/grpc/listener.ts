import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { ConnectionInjector } from '@grpc/grpc-js';
import type { Connections } from '../front-end/connections.js';

// HTTP's front ends give a connection as long to say something.
const SILENT_MS = 10_000;
/** The preface of HTTP/2 and the frame behind it, which every client sends at once. */
const PREFACE_BYTES = 24 + 9;

/** Accepts connections for gRPC: counted with those of HTTP, and closed where they stay silent. */
export interface GrpcListener {
  /**
   * Listens; other processes cannot share the port.
   *
   * @returns the port
   * @throws Error where the address cannot be listened on
   */
  listen(host: string, port: number): Promise<number>;
  /** Closes the port and all connections. */
  close(): void;
}

/** Makes a listener that hands connections to the library. */
export function openListener(injector: ConnectionInjector, connections: Connections): GrpcListener {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const timer = setTimeout(() => {
      if (socket.bytesRead < PREFACE_BYTES) socket.destroy();
    }, SILENT_MS);
    socket.once('close', () => {
      clearTimeout(timer);
      sockets.delete(socket);
      connections.closed();
    });
    // What becomes of the connection, the library sees itself.
    socket.on('error', () => {});
    if (connections.opened()) injector.injectConnection(socket);
    else socket.destroy();
  });
  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', () => reject(cannotListen(host, port)));
        server.listen({ host, port, exclusive: true }, () => resolve((server.address() as AddressInfo).port));
      }),
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
