import type { IncomingMessage } from 'node:http';

/** Who may use a port. */
export interface Callers {
  /** Names and addresses, in lower case, by which the port may be called. */
  readonly hosts: ReadonlySet<string>;
  /** Origins of web pages that may call. */
  readonly origins: ReadonlySet<string>;
}

const LOOPBACK_NAMES = ['127.0.0.1', 'localhost', '[::1]'];

/** @param hosts names besides those of the loopback interface */
export function callersOf(hosts: readonly string[], origins: readonly string[]): Callers {
  return {
    hosts: new Set([...LOOPBACK_NAMES, ...hosts.map((name) => name.toLowerCase())]),
    origins: new Set(origins),
  };
}

/**
 * Why a request is refused before anything is read of it; `null` if it is not. Whoever gets through has calls signed.
 * A page in a browser must not: it sends an `Origin`, for an image or a link `Sec-Fetch-Site` alone, or, where its name was made
 * to lead here, its name in `Host`.
 */
export function findForeign({ headers, rawHeaders }: IncomingMessage, callers: Callers): string | null {
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'host').length;
  const name = /^(.*?)(?::\d+)?$/.exec(headers.host ?? '')?.[1]?.toLowerCase() ?? '';
  if (hosts !== 1 || !callers.hosts.has(name))
    return `the Host of the request is ${JSON.stringify(name)}, expected ${[...callers.hosts].join(' or ')} (--allow-host names others)`;
  const { origin, 'sec-fetch-site': site } = headers;
  if (origin !== undefined)
    return callers.origins.has(origin)
      ? null
      : `the request comes from a web page of ${JSON.stringify(origin)} (--allow-origin names pages that may call)`;
  if (site === undefined || site === 'none' || site === 'same-origin') return null;
  return `the request comes from a web page (Sec-Fetch-Site is ${JSON.stringify(site)})`;
}

/** Whether an address is of the loopback interface. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
