import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { BlockList, connect, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { request } from 'undici';

/** Where requests go. */
export interface Place {
  /** The address that was looked at, not its name: that could be another's a moment later. */
  readonly host: string;
  readonly port: number;
  /** The header `Host`. */
  readonly authority: string;
  readonly path: string;
}

/**
 * Where a URL leads: an address of this machine, unless its owner says otherwise.
 *
 * @param isMine whether it may be another machine
 * @throws Error if nothing answers there, or it is another machine
 */
export async function placeOf(given: string, isMine: boolean): Promise<Place> {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url?.protocol !== 'http:')
    throw new Error(`--url has ${JSON.stringify(given)}, expected http://host:port/path`);
  const name = url.hostname.replace(/^\[|\]$/g, '');
  const found = (await lookup(name, { all: true })).map(({ address }) => address);
  const other = found.find((address) => !isOfThisMachine(address));
  if (other !== undefined && !isMine)
    throw new Error(
      `${url.host} leads to ${other}, which is not this machine. Load on what belongs to others is an attack: --yes-it-is-mine if it does not`,
    );
  const port = Number(url.port || 80);
  for (const host of found)
    if (await answers(host, port))
      return { host, port, authority: url.host, path: url.pathname + url.search };
  throw new Error(`nothing listens at ${url.host} (${found.join(', ')})`);
}

/** Whether an address is a loopback, or of an interface here. Connections to none (`0.0.0.0`) go to this machine, too. */
export function isOfThisMachine(address: string): boolean {
  const own = new BlockList();
  own.addSubnet('127.0.0.0', 8);
  const here = Object.values(networkInterfaces()).flatMap((all = []) => all.map((one) => one.address));
  for (const one of ['::1', '::', '0.0.0.0', ...here]) own.addAddress(one, familyOf(one));
  // Of an address with a zone, the interface is left out.
  const [plain = ''] = address.split('%');
  return own.check(plain, familyOf(plain));
}

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4');

async function answers(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port, timeout: 5_000 }).once('timeout', () => socket.destroy(new Error()));
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isOpen;
}

/** Sends one `POST`. */
export async function post({ host, port, authority, path }: Place, body: string) {
  const origin = `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;
  const headers = { Host: authority, 'Content-Type': 'application/json' };
  const signal = AbortSignal.timeout(10_000);
  const answer = await request(origin + path, { method: 'POST', headers, body, signal });
  return { status: answer.statusCode, text: await answer.body.text() };
}
