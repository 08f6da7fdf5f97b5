import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

/** Stands for the address of a peer over a Unix socket, which has none. */
export const UNIX_PEER = 'unix';

/** The proxies that are trusted to say where a request came from. */
export type ProxyTrust =
  /** This many proxies: the last ones on the way, whatever their addresses. */
  | { readonly kind: 'hops'; readonly hops: number }
  /** Proxies with some addresses, of which {@link UNIX_PEER} can be one. */
  | { readonly kind: 'addresses'; readonly has: (address: string) => boolean };

const MAX_HOPS = 16;
const MAX_ADDRESSES = 100;
/** Entries further to the left are ignored: a client can make the header as long as the limit on headers allows. */
const MAX_ENTRIES = 32;

/**
 * Reads `TRUST_PROXY`: a number of proxies, or a list of addresses and networks separated by commas. In a list, `unix`
 * stands for Unix sockets.
 *
 * @returns `problem` says what is wrong with the text
 * @example readProxyTrust('10.0.0.0/8, fd00::/8')
 */
export function readProxyTrust(text: string): ProxyTrust | { readonly problem: string } {
  if (/^\d+$/.test(text)) {
    const hops = Number(text);
    if (hops >= 1 && hops <= MAX_HOPS) return { kind: 'hops', hops };
    return { problem: `expected 1 to ${MAX_HOPS} proxies; unset it if there is none` };
  }
  const entries = text.split(',').map((entry) => entry.trim());
  if (entries.length > MAX_ADDRESSES) return { problem: `expected at most ${MAX_ADDRESSES} networks` };
  const list = new BlockList();
  for (const entry of entries.filter((one) => one !== UNIX_PEER)) {
    const [, address = '', bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(entry) ?? [];
    const version = isIP(address);
    const size = version === 4 ? 32 : 128;
    const prefix = bits === undefined ? size : Number(bits);
    const refuse = (why: string) => ({ problem: `${JSON.stringify(entry)} ${why}` });
    if (version === 0 || prefix > size)
      return refuse(
        'is not a network, expected a number of proxies, or networks such as 10.0.0.0/8,fd00::/8',
      );
    if (prefix === 0)
      return refuse(
        'contains every address, so a client could choose its own: expected only those of the proxies',
      );
    list.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6');
  }
  const has = (address: string) =>
    address === UNIX_PEER
      ? entries.includes(UNIX_PEER)
      : isIP(address) !== 0 && list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  return { kind: 'addresses', has };
}

/**
 * The address of the client that sent a request: the peer of the connection, or an address that a trusted proxy wrote
 * into `X-Forwarded-For`. Each proxy appends the address of its own peer. So the list is read from its end, and only
 * the entries that trusted proxies wrote are used. Everything to the left may come from the client itself.
 *
 * If a trusted proxy wrote something that is not an address, the proxy counts as the client. So the result is always
 * the peer or a valid address, never other text from a header.
 *
 * @param trust `null` if no proxy is trusted
 * @param peer `Wire.remoteAddress`, or {@link UNIX_PEER}
 * @param forwardedFor all headers of that name in the order sent, joined with commas; `null` if there is none
 */
export function clientAddressOf(trust: ProxyTrust | null, peer: string, forwardedFor: string | null): string {
  if (trust === null || forwardedFor === null) return peer;
  const hops = trust.kind === 'hops' ? trust.hops : MAX_ENTRIES;
  let client = peer;
  let end = forwardedFor.length;
  for (let hop = 0; hop < hops && end >= 0; hop++) {
    if (trust.kind === 'addresses' && !trust.has(client)) break;
    const comma = forwardedFor.lastIndexOf(',', end - 1);
    const address = readAddress(forwardedFor.slice(comma + 1, end));
    if (address === null) break;
    client = address;
    end = comma;
  }
  return client;
}

/** Reads an address as proxies write it: alone, with a port, or in brackets. `null` for anything else, such as zones. */
function readAddress(entry: string): string | null {
  const text = entry.trim();
  if (text.includes('%')) return null;
  if (isIP(text) !== 0) return text;
  const [, inBrackets, beforePort] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([^:]+):\d{1,5})$/.exec(text) ?? [];
  if (inBrackets !== undefined) return isIP(inBrackets) === 6 ? inBrackets : null;
  return beforePort !== undefined && isIPv4(beforePort) ? beforePort : null;
}

/**
 * The key under which a client is counted: an IPv4 address (also if written as IPv6, `::ffff:192.0.2.1`), or the
 * first 64 bits of an IPv6 address, since the owner of one address usually has the whole /64 network.
 *
 * @param address text in any notation; a text that is not an address is returned unchanged
 */
export function clientOf(address: string): string {
  if (!isIPv6(address)) return address;
  // RFC 5952: without zeros at the front of groups and an IPv4 address at the end, and the longest run of zeros left out.
  const text = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1);
  const [, high, low] = /^::ffff:([^:]+):([^:]+)$/.exec(text)?.map((group) => parseInt(group, 16)) ?? [];
  if (high !== undefined && low !== undefined)
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  const [before = [], after = []] = text.split('::').map((half) => half.split(':').filter(Boolean));
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, 4).join(':');
}
