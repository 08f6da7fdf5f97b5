import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { cannotListen } from '../front-end.js';

/**
 * Finds a port that several processes can share: this one, or a free one for 0. Processes that share a port do not
 * notice another service on it, so this first listens on it alone.
 *
 * @returns the port in decimal digits
 * @throws Error if another service has the port
 */
export async function findPort(host: string, port: number): Promise<string> {
  const server = createServer().listen({ host, port, exclusive: true });
  await once(server, 'listening').catch((cause: unknown) => {
    throw new Error(cannotListen({ kind: 'tcp', host, port, isShared: true }).message, { cause });
  });
  const found = (server.address() as AddressInfo).port;
  await once(server.close(), 'close');
  return `${found}`;
}
