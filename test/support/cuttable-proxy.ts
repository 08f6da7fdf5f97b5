import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy that can cut the network between two programs. */
export interface CuttableProxy {
  readonly port: number;
  /** Stops all data without closing a connection, like a network that drops every packet. */
  cut(): void;
  /** Resets all open connections and lets everything pass again. */
  heal(): void;
  /** Connects new connections to another port, and resets the open ones. */
  lead(port: number): void;
  stop(): void;
}

/** Starts a proxy. */
export async function startCuttableProxy(target: number): Promise<CuttableProxy> {
  const pairs = new Set<readonly [Socket, Socket | null]>();
  let isCut = false;
  const server = createServer((socket) => {
    const upstream = isCut ? null : connect(target, '127.0.0.1');
    const pair = [socket, upstream] as const;
    pairs.add(pair);
    for (const end of pair) {
      end?.on('error', () => undefined);
      end?.on('close', () => {
        pairs.delete(pair);
        if (!isCut) for (const other of pair) other?.destroy();
      });
    }
    if (upstream !== null) socket.pipe(upstream).pipe(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const reset = () => {
    for (const pair of pairs) for (const end of pair) end?.destroy();
    pairs.clear();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => {
      isCut = true;
      for (const [socket, upstream] of pairs) {
        socket.unpipe();
        upstream?.unpipe();
        socket.pause();
        upstream?.pause();
      }
    },
    heal: () => {
      isCut = false;
      reset();
    },
    lead: (port) => {
      target = port;
      reset();
    },
    stop: () => {
      isCut = false;
      reset();
      server.close();
    },
  };
}
