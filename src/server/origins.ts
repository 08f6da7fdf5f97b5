import type { RequestHead } from './request-head.js';

/**
 * Whether a request may have been made by a web page that nobody listed. Any page can post to a verifier on the same
 * machine or network; browsers say where such a request comes from, other clients do not.
 */
export function isForeignOrigin({ origin, fetchSite }: RequestHead, allowed: ReadonlySet<string>): boolean {
  if (origin !== null) return !allowed.has(origin);
  return fetchSite !== null && fetchSite !== 'none' && fetchSite !== 'same-origin';
}
