/** How a copy of the status list may be used at a given moment. */
type CopyState =
  /** Use it. */
  | 'fresh'
  /** Use it, and fetch in the background: its time to live is nearly over. */
  | 'refresh_due'
  /** Use it, and fetch in the background: its time to live is over, the time for stale copies is not. */
  | 'stale'
  /** Do not use it: there is none, it is too old, or its age is unknown. */
  | 'unusable';

/** When a copy was made, and how long the list itself is valid. Unix milliseconds. */
export interface CopyTimes {
  /** When it was fetched, or confirmed by the server. */
  readonly fetchedAt: number;
  /** The first moment at which the list is no longer valid; `Infinity` if it has no end. */
  readonly validUntilMs: number;
}

/** For how long a copy may be used. Milliseconds. */
export interface CopyLimits {
  readonly ttlMs: number;
  /** For how long after `ttlMs` the copy may still be used while fetches are tried. */
  readonly maxStaleMs: number;
}

/** The fraction of its lifetime after which a copy is refreshed, so that no verification waits for the next one. */
const REFRESH_AT = 0.8;

/**
 * Says how a copy may be used.
 *
 * A copy from the future is unusable: the clock was set back, so its age is unknown, and it might be used forever.
 *
 * @param now Unix milliseconds
 * @example copyState({ fetchedAt: 0, validUntilMs: Infinity }, 90, { ttlMs: 100, maxStaleMs: 0 }); // 'refresh_due'
 */
export function copyState(copy: CopyTimes | null, now: number, { ttlMs, maxStaleMs }: CopyLimits): CopyState {
  if (copy === null || now < copy.fetchedAt || now >= copy.validUntilMs) return 'unusable';
  const age = now - copy.fetchedAt;
  if (age >= ttlMs) return age < ttlMs + maxStaleMs ? 'stale' : 'unusable';
  const lifetime = Math.min(ttlMs, copy.validUntilMs - copy.fetchedAt);
  return age >= lifetime * REFRESH_AT ? 'refresh_due' : 'fresh';
}
