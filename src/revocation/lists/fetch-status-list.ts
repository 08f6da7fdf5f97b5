import { unescape } from 'node:querystring';
import type { Dispatcher } from 'undici';
import { reasonOf } from '../../redis/connection.js';
import { fetchOnce, type Undici } from '../../trust/safe-fetch.js';
import { printableUrl } from '../printable-url.js';
import { MAX_WIRE_BYTES } from './credential.js';
import { proxyFor } from './proxy.js';
import { StatusListError } from './status-list-error.js';

const ACCEPT = 'application/vc+jwt, application/vc, application/json;q=0.9, */*;q=0.8';
const IF_TOO_LARGE = ': clear the entries of receipts that have expired, so that it packs better';

/** Opens the way to a list, directly or through the proxy of the environment: it may be on another network. */
function openWay(list: URL, { Agent, ProxyAgent }: Undici): Dispatcher {
  const proxy = proxyFor(list)?.url;
  if (proxy === undefined) return new Agent();
  const { origin, hostname: servername, username, password } = proxy;
  const credentials = Buffer.from(`${unescape(username)}:${unescape(password)}`).toString('base64');
  const token = username === '' ? undefined : `Basic ${credentials}`;
  if (list.protocol === 'https:') return new ProxyAgent({ uri: origin, ...(token && { token }) });
  // Proxies have tunnels to TLS alone, and are asked for anything else by its whole URL. RFC 9112 §3.2.2
  return new Agent().compose((dispatch) => ({ path, headers, ...options }, handler) => {
    // Those of fetchOnce.
    const given = headers as Readonly<Record<string, string>>;
    const named = { ...given, host: list.host, 'proxy-authorization': token };
    const asked = { ...options, origin, path: `${list.origin}${path}`, headers: named, servername };
    return dispatch(asked, handler);
  });
}

/**
 * Fetches the bytes of a status list. Follows no redirect: what is trusted is the server that the operator names.
 *
 * @param options.etag ETag of the present copy: the server may then answer that the list has not changed
 * @param options.signal ends the fetch at any point, also during a slow body; its reason is thrown. The caller must
 *   abort it when this settles, so that no connection stays open after an answer that was only partly read.
 * @returns the list as its server sends it; `not_modified` only where an ETag was sent
 * @throws {@link StatusListError} `http_status`, `too_large`, `unreachable`, `malformed` (a content coding that was not asked for)
 * @see RFC 9110 §13.1.2 (If-None-Match)
 */
export async function fetchStatusList(
  url: URL,
  { signal, etag }: { signal: AbortSignal; etag?: string | undefined },
) {
  const proxy = proxyFor(url);
  const place = printableUrl(url) + (proxy === null ? '' : ` through ${proxy.variable}`);
  try {
    const asked = { accept: ACCEPT, maxBytes: MAX_WIRE_BYTES, expected: '200 and a list', signal, etag };
    const open = (undici: Undici) => openWay(url, undici);
    return await fetchOnce(url, asked, open, (fault, found) => {
      const subject = fault === 'http_status' ? place : 'it';
      return new StatusListError(fault, `${subject} ${found}${fault === 'too_large' ? IF_TOO_LARGE : ''}`);
    });
  } catch (error) {
    // The reason of the signal is a StatusListError too.
    if (error instanceof StatusListError) throw error;
    throw new StatusListError('unreachable', `${place} cannot be fetched: ${reasonOf(error)}`, {
      cause: error,
    });
  }
}
