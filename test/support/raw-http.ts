import { once } from 'node:events';
import net from 'node:net';
import { eventually } from './eventually.js';

/** A connection on which a test can send bytes that no HTTP client sends. */
export interface RawConnection {
  readonly socket: net.Socket;
  /** The data received so far. */
  readonly received: () => string;
  /** Resolves with all data received, as soon as it contains this text. */
  readonly until: (text: string) => Promise<string>;
  /** Resolves with all data received, when the connection has ended or was reset. */
  readonly closed: Promise<string>;
}

/**
 * Opens a connection to the service on this machine.
 *
 * @param from the address to connect from, such as `127.0.0.2` for another client
 */
export async function connectRaw(port: number, from = '127.0.0.1'): Promise<RawConnection> {
  const socket = net.connect({ port, host: '127.0.0.1', localAddress: from });
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString('latin1')));
  socket.on('error', () => undefined);
  const closed = new Promise<string>((resolve) => socket.once('close', () => resolve(text)));
  await once(socket, 'connect');
  return {
    socket,
    received: () => text,
    until: async (end) => {
      await eventually(() => {
        if (!text.includes(end))
          throw new Error(`expected ${JSON.stringify(end)} in ${JSON.stringify(text)}`);
      });
      return text;
    },
    closed,
  };
}

/** Sends text on a new connection. Resolves with the answer when the service or `end` has ended the connection. */
export async function sendRaw(port: number, ...pieces: readonly string[]): Promise<string> {
  const { socket, closed } = await connectRaw(port);
  socket.setNoDelay(true);
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return closed;
}
