/** What a copy of the status list is good for at a moment. */
export type CopyState =
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
  /** The first moment at which the list is no longer valid; `Infinity` where it has no end. */
  readonly validUntilMs: number;
}

/** For how long a copy serves. Milliseconds. */
export interface CopyLimits {
  readonly ttlMs: number;
  /** For how long after that, while a fetch is tried. */
  readonly maxStaleMs: number;
}

/** The part of a copy's time after which it is refreshed, so that nobody has to wait for the next one. */
const REFRESH_AT = 0.8;

/**
 * Says what a copy is good for.
 *
 * A copy from the future is unusable: the clock was set back, so its age is unknown, and it could serve for ever.
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
