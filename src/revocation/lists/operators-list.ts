import { printableUrl } from '../printable-url.js';
import type { Deps } from '../observer.js';
import { fetchStatusList } from './fetch-status-list.js';
import { proxyFor } from './proxy.js';
import { readStatusList, type ListForm, type ReadOptions } from './read-status-list.js';
import { StatusListCache, type ListTimes } from './status-list-cache.js';
import { StatusListError } from './status-list-error.js';

/** Where the operator's list is, and how long a copy of it may be used. */
export interface StatusListOptions extends ListTimes, Pick<ReadOptions, 'issuer' | 'clockSkewSecs'> {
  /** `http:` or `https:`. Unless an issuer is pinned, whoever controls the answer decides what is revoked. */
  readonly url: string;
  /** The name that the list must have: {@link url} by default, `any` for whatever comes. */
  readonly id?: string | undefined;
  /** `raw`: bits, which nothing tells from any other bytes. `credential` by default. */
  readonly form?: ListForm | undefined;
}

/** Time limit of a whole fetch, from the connection to the last bit read. */
const GIVE_UP_MS = 10_000;

/**
 * The list of the operator, for all receipts with an index whose root names no list.
 *
 * @param giveUpMs only tests change it
 * @throws Error if a variable of the proxy is wrong
 */
export function operatorsList(
  options: StatusListOptions,
  deps: Deps,
  giveUpMs = GIVE_UP_MS,
): StatusListCache {
  const { form = 'credential', url, id = url, issuer, clockSkewSecs } = options;
  const place = new URL(url);
  // Wrong variables are refused now.
  proxyFor(place);
  return new StatusListCache(options, deps, {
    fetch: (asked) => fetchStatusList(place, asked),
    read: ({ body, contentType }, nowMs) =>
      readStatusList(body, contentType, { form, id, issuer, nowMs, clockSkewSecs }),
    isPinned: issuer !== undefined,
    facts: { url: printableUrl(place) },
    isForAll: true,
    inTurn: (stop, work) => within(giveUpMs, stop, work),
    onFetched: (outcome, durationMs) => deps.observer.statusListFetched?.(outcome, durationMs),
  });
}

/** Does work that is ended if it takes too long. */
export async function within<T>(ms: number, stop: AbortController, work: () => Promise<T>): Promise<T> {
  const late = new StatusListError('timeout', `it did not arrive within ${ms} ms`);
  const timer = setTimeout(() => stop.abort(late), ms);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}
