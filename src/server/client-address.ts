import { BlockList, isIP, isIPv4 } from 'node:net';
import { UNIX_PEER } from './front-end/front-end.js';

/** Which proxies are believed about where a request came from. */
export type ProxyTrust =
  /** So many, whoever they are: the last ones on the way. */
  | { readonly kind: 'hops'; readonly hops: number }
  /** Those with these addresses, and, if `unix`, whoever calls over a Unix socket. */
  | { readonly kind: 'addresses'; readonly list: BlockList; readonly unix: boolean };

const MAX_HOPS = 16;
const MAX_ADDRESSES = 100;
/** What is further to the left is not looked at: a client can make the header as long as all headers may be. */
const MAX_ENTRIES = 32;
const MAX_CHARACTERS = 2048;

/**
 * Reads `TRUST_PROXY`: a number of proxies, or addresses and networks separated by commas, `unix` for Unix sockets.
 *
 * @returns what is wrong with it where it is neither
 * @example readProxyTrust('10.0.0.0/8, fd00::/8')
 */
export function readProxyTrust(text: string): ProxyTrust | { readonly problem: string } {
  if (/^\d+$/.test(text)) {
    const hops = Number(text);
    if (hops >= 1 && hops <= MAX_HOPS) return { kind: 'hops', hops };
    return { problem: `expected 1 to ${MAX_HOPS} proxies; unset it where there is none` };
  }
  const entries = text.split(',').map((entry) => entry.trim());
  if (entries.length > MAX_ADDRESSES) return { problem: `expected at most ${MAX_ADDRESSES} networks` };
  const list = new BlockList();
  let unix = false;
  for (const entry of entries) {
    const [, address = '', bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(entry) ?? [];
    const version = isIP(address);
    const size = version === 4 ? 32 : 128;
    const prefix = bits === undefined ? size : Number(bits);
    if (entry === UNIX_PEER) unix = true;
    else if (version === 0 || prefix > size)
      return {
        problem: `${JSON.stringify(entry)} is no network, expected a number of proxies, or networks such as 10.0.0.0/8,fd00::/8`,
      };
    else if (prefix === 0)
      return {
        problem: `${JSON.stringify(entry)} is every address, so a client could choose its own: expected those of the proxies`,
      };
    else list.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6');
  }
  return { kind: 'addresses', list, unix };
}

/**
 * The address of the client that a request came from: the peer of the connection, or what trusted proxies wrote into
 * `X-Forwarded-For`. Each proxy appends the address of its own peer, so the list is read from its end, and only as far as
 * it was written by proxies that are trusted; what the client itself has sent lies to the left of that.
 *
 * Where a trusted proxy wrote something else than an address, the proxy counts as the client. So the result is always a
 * peer or a valid address, never other text from a header.
 *
 * @param trust `null` where no proxy is trusted
 * @param peer {@link Wire.remoteAddress}
 * @param forwardedFor all headers of that name in the order sent, joined with commas; `null` where there is none
 */
export function clientAddressOf(trust: ProxyTrust | null, peer: string, forwardedFor: string | null): string {
  if (trust === null || forwardedFor === null) return peer;
  const isCut = forwardedFor.length > MAX_CHARACTERS;
  const text = forwardedFor.slice(-MAX_CHARACTERS);
  const hops = trust.kind === 'hops' ? trust.hops : MAX_ENTRIES;
  let client = peer;
  let end = text.length;
  for (let hop = 0; hop < hops && end >= 0; hop++) {
    if (trust.kind === 'addresses' && !isTrusted(trust, client)) break;
    const comma = text.lastIndexOf(',', end - 1);
    // What was cut off at the left may have been part of an address.
    const address = comma === -1 && isCut ? null : readAddress(text.slice(comma + 1, end));
    if (address === null) break;
    client = address;
    end = comma;
  }
  return client;
}

function isTrusted(
  { list, unix }: Extract<ProxyTrust, { readonly kind: 'addresses' }>,
  address: string,
): boolean {
  if (address === UNIX_PEER) return unix;
  const version = isIP(address);
  return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6');
}

/** An address as proxies write it: bare, with a port, in brackets. `null` for anything else; zones mean nothing here. */
function readAddress(entry: string): string | null {
  const text = entry.trim();
  if (text.length > 60 || text.includes('%')) return null;
  if (isIP(text) !== 0) return text;
  const [, inBrackets, beforePort] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([^:]+):\d{1,5})$/.exec(text) ?? [];
  if (inBrackets !== undefined) return isIP(inBrackets) === 6 ? inBrackets : null;
  return beforePort !== undefined && isIPv4(beforePort) ? beforePort : null;
}
