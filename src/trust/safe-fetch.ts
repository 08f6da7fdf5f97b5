import { lookup as resolve } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import type { Dispatcher } from 'undici';
import { requireHttpParser } from '../protocol/http-parser.js';
import { isLoopback } from '../protocol/loopback.js';
import { readAtMost } from '../protocol/read-at-most.js';

export type FetchFault =
  /** It took too long: for callers, whose signal ends a fetch. */
  | 'timeout'
  /** No connection, a broken one, or an address that is not allowed. */
  | 'unreachable'
  /** Another status than 200 or 304. */
  | 'http_status'
  | 'too_large'
  /** A content coding that was not asked for. */
  | 'malformed';

/** Why something was not fetched. The message says what was found and what was expected. */
export class FetchError extends Error {
  override readonly name = 'FetchError';
  readonly fault: FetchFault;

  constructor(fault: FetchFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

export interface FetchOptions {
  readonly accept: string;
  readonly maxBytes: number;
  /** Ends the fetch at any point, also during a slow body; its reason is thrown. */
  readonly signal: AbortSignal;
  /** ETag of the present copy: the server may then answer that it has not changed. */
  readonly etag?: string | undefined;
  /** For the error of another status; `200` by default. */
  readonly expected?: string;
  /** Addresses and networks (`10.0.0.0/8`) that are allowed although they are not public. */
  readonly addresses?: readonly string[] | undefined;
}

export interface Fetched {
  readonly body: Buffer;
  /** Empty if the answer has none. */
  readonly contentType: string;
  readonly etag: string | undefined;
  /** How long it may be kept, as `Cache-Control` says; `null` if it does not say. */
  readonly maxAgeMs: number | null;
}

/** What no public server has: IANA's special addresses, and 168.63.129.16, where each machine of Azure finds its own secrets. */
const SPECIAL = networksOf(
  `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
  192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
  2001::/23 2001:db8::/32 2002::/16 3fff::/20`.split(/\s+/),
);
// Outside are addresses that hold an IPv4 address (mapped, NAT64), and those of a machine, a link or a site.
const GLOBAL_IPV6 = networksOf(['2000::/3']);

function networksOf(texts: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const [address = '', bits] = text.split('/');
    if (bits === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(bits), familyOf(address));
  }
  return list;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

function isPublic(address: string): boolean {
  const family = familyOf(address);
  return !SPECIAL.check(address, family) && (family === 'ipv4' || GLOBAL_IPV6.check(address, family));
}

export type Undici = typeof import('undici');
/** Loaded by the first fetch: it takes a quarter of the start. */
let loaded: Undici | null = null;

/**
 * Asks a server once. `fail` makes an error of what is wrong with its answer, such as `has more than 1024 bytes`.
 *
 * @returns what it sends; `not_modified` only where an ETag was sent
 * @throws what `fail` makes, what `openWay` throws, and errors of the connection
 * @see RFC 9110 §13.1.2 (If-None-Match)
 */
export async function fetchOnce(
  { origin, pathname, search }: URL,
  { accept, maxBytes, signal, etag, expected = '200' }: FetchOptions,
  openWay: (undici: Undici) => Dispatcher,
  fail: (fault: FetchFault, found: string) => Error,
): Promise<Fetched | 'not_modified'> {
  let way: Dispatcher | null = null;
  try {
    if (loaded === null) requireHttpParser();
    loaded ??= await import('undici');
    way = openWay(loaded);
    const { statusCode, headers, body } = await way.request({
      origin,
      path: pathname + search,
      method: 'GET',
      signal,
      // With a fetch every few minutes, a kept-alive connection gains nothing, and fails if the server has just closed it.
      reset: true,
      headers: { accept, 'accept-encoding': 'identity', 'if-none-match': etag },
    });
    const header = (name: string) => [headers[name]].flat()[0];
    if (statusCode === 304 && etag !== undefined) return 'not_modified';
    if (statusCode !== 200)
      throw fail('http_status', `answers ${statusCode}, expected ${expected}; no redirect is followed`);
    const coding = header('content-encoding') ?? 'identity';
    if (coding !== 'identity')
      throw fail('malformed', `has Content-Encoding ${coding}, which was not asked for`);
    const isLonger = Number(header('content-length')) > maxBytes;
    const read = isLonger ? null : await readAtMost(body, maxBytes);
    if (read === null) throw fail('too_large', `has more than ${maxBytes} bytes`);
    const [, seconds] = /(?:^|[\s,])max-age=(\d{1,9})\b/i.exec(header('cache-control') ?? '') ?? [];
    return {
      body: read,
      contentType: header('content-type') ?? '',
      etag: header('etag'),
      maxAgeMs: seconds === undefined ? null : Number(seconds) * 1000,
    };
  } finally {
    // Also ends a body that was only partly read.
    await way?.destroy();
  }
}

/**
 * Fetches what an operator has named, but others control: a server that could lead to machines inside. So it is asked over
 * https, only at public addresses, and is not followed anywhere. Proxies are not used: they would look up the address again.
 * `http` is for loopback alone. As no such address is public, `addresses` must have it.
 *
 * @throws FetchError, or the reason of the signal
 * @see {@link fetchOnce}, IANA's registries of special-purpose addresses
 */
export async function fetchBounded(url: URL, options: FetchOptions): Promise<Fetched | 'not_modified'> {
  const { signal, addresses = [] } = options;
  const place = url.origin + url.pathname;
  try {
    const open = (undici: Undici) => openWay(url, place, addresses, undici);
    return await fetchOnce(url, options, open, (fault, found) => new FetchError(fault, `${place} ${found}`));
  } catch (error) {
    if (error instanceof FetchError || error === signal.reason) throw error;
    const { message, code } = error as NodeJS.ErrnoException;
    const reason = message || code || 'no reason given';
    throw new FetchError('unreachable', `${place} cannot be fetched: ${reason}`, { cause: error });
  }
}

/** Opens the way to a server at an allowed address. @throws FetchError if it has no such address */
function openWay(
  { protocol, hostname }: URL,
  place: string,
  addresses: readonly string[],
  { Agent }: Undici,
): Dispatcher {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (protocol !== 'https:' && !(protocol === 'http:' && isLoopback(host)))
    throw new FetchError('unreachable', `${place} is not fetched: expected https, or http at this machine`);
  const listed = networksOf(addresses);
  const isAllowed = (address: string) =>
    listed.check(address, familyOf(address)) || (protocol === 'https:' && isPublic(address));
  const refuse = (found: string) =>
    new FetchError(
      'unreachable',
      `${place} is not fetched: its address is ${found}, expected a public one, or one that its row lists`,
    );
  // Of an address, nothing is looked up.
  if (isIP(host) !== 0 && !isAllowed(host)) throw refuse(host);
  // What was looked at is what is connected to: asked again, a name server could say something else (DNS rebinding).
  const lookup: LookupFunction = (name, options, callback) => {
    resolve(name, { ...options, all: true }, (error, found) => {
      const allowed = error === null ? found.filter(({ address }) => isAllowed(address)) : [];
      const [first] = allowed;
      if (first === undefined) callback(error ?? refuse(found.map(({ address }) => address).join(', ')), []);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
  return new Agent({ connect: { lookup } });
}
