import type { RequestHead } from './request-head.js';

/**
 * Whether a request may come from a web page that is not listed. Any page can send a POST to a verifier on its
 * visitor's machine or network. Browsers send the origin of such a request; other clients do not.
 */
export function isForeignOrigin({ origin, fetchSite }: RequestHead, allowed: ReadonlySet<string>): boolean {
  if (origin !== null) return !allowed.has(origin);
  return fetchSite !== null && fetchSite !== 'none' && fetchSite !== 'same-origin';
}
