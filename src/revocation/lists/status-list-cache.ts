import type { RemoteStatus } from '../../verify/parts.js';
import { countOf, valueAt } from './bitstring.js';
import { FetchError } from '../../trust/safe-fetch.js';
import type { Deps } from '../observer.js';
import { isoTime, type StatusList } from './read-status-list.js';
import { StatusListError, type FetchOutcome } from './status-list-error.js';

/** How long a copy of a list may be used. */
export interface ListTimes {
  /** Seconds for which a copy is used without a fetch, at least 1. */
  readonly ttlSecs: number;
  /** Seconds after `ttlSecs` for which the copy is still used while fetches are tried; 0 fails closed at once. */
  readonly maxStaleSecs: number;
  /** Milliseconds for which a verification waits if there is no usable copy, counted from the start of the fetch. */
  readonly maxWaitMs: number;
}

/** Why verifications that need the list are refused; see {@link StatusListCache.unreadyReason}. */
export type ListUnreadyReason = 'status_list_not_fetched' | 'status_list_stale';

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

/** How a list is fetched and read, and what is done besides. */
export interface ListWays {
  fetch(asked: { signal: AbortSignal; etag?: string | undefined }): Promise<FetchedList | 'not_modified'>;
  read(fetched: FetchedList, nowMs: number): Promise<StatusList>;
  /** Whether an older list than the present copy is refused: who signs is known. */
  readonly isPinned: boolean;
  /** For the log. */
  readonly facts: object;
  /** Whether each receipt may need the list: it is then fetched without a verification, and what fails is logged again and again. */
  readonly isForAll: boolean;
  /** Does the work of a fetch when its turn comes. `stop` ends it. */
  inTurn<T>(stop: AbortController, work: () => Promise<T>): Promise<T>;
  onFetched(outcome: FetchOutcome, durationMs: number): void;
}

export interface FetchedList {
  readonly body: Buffer;
  readonly contentType: string;
  readonly etag: string | undefined;
}

/** What values of entries mean. */
const STATUSES = ['not_revoked', 'revoked', 'suspended'] as const;
/** The fraction of its lifetime after which a copy is refreshed, so that no verification waits for the next one. */
const REFRESH_AT = 0.8;
/** Minimum time between the starts of two fetches. */
const MIN_GAP_MS = 1_000;
const MAX_RETRY_MS = 30_000;
const FAILURE_LOG_MS = 10_000;

interface Copy {
  readonly list: StatusList;
  readonly etag: string | undefined;
  /** When it was fetched, or confirmed by the server, in Unix milliseconds. */
  readonly fetchedAt: number;
  /** The part of its lifetime after which it is refreshed. */
  readonly refreshAt: number;
}

/**
 * A remote status list, in memory. Only the main thread reads and writes it.
 *
 * If there is a usable copy, a verification never waits for the server. Fetches run in the background, one at a time.
 */
export class StatusListCache {
  readonly #options: ListTimes;
  readonly #deps: Deps;
  readonly #ways: ListWays;
  #copy: Copy | null = null;
  /** `validFromMs` of the last copy, also if it was dropped. */
  #newestFromMs = -Infinity;
  /** The current fetch; it never rejects. */
  #fetching: Promise<void> | null = null;
  /** What verifications wait for: the current fetch, up to `maxWaitMs` after its start. */
  #awaited: Promise<void> | null = null;
  #stop: AbortController | null = null;
  /** The clock when a fetch last started or brought a copy. */
  #lastTime = -Infinity;
  #nextStart = -Infinity;
  /** Number of consecutive retries: of failures, or if it is for all, of those that were started without a verification. */
  #retries = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  /** Whether a verification has been refused since the last success. */
  #hasRefused = false;
  #closed = false;
  #failureLogged: { fault: string; at: number } | null = null;

  constructor(options: ListTimes, deps: Deps, ways: ListWays) {
    this.#options = options;
    this.#deps = deps;
    this.#ways = ways;
  }

  /** Why verifications that need the list are refused: there is no copy, or it is too old and one was refused. `null`: they are not. */
  get unreadyReason(): ListUnreadyReason | null {
    if (this.#copy === null) return 'status_list_not_fetched';
    return this.#hasRefused && this.#stateAt(this.#deps.now()) === 'unusable' ? 'status_list_stale' : null;
  }

  /** Entries of the present copy; 0 without one. */
  get entries(): number {
    return this.#copy === null ? 0 : countOf(this.#copy.list);
  }

  /** Bytes of the present copy. */
  get bytes(): number {
    return this.#copy?.list.bits.length ?? 0;
  }

  /** Seconds since the present copy was fetched or confirmed; `NaN` without one. */
  get ageSecs(): number {
    return this.#copy === null ? Number.NaN : (this.#deps.now() - this.#copy.fetchedAt) / 1000;
  }

  /** Fetches the list in the background, and retries until it succeeds. */
  start(): void {
    this.#startFetch();
  }

  /**
   * Call this before a verification that needs the list. Starts a fetch if one is due.
   *
   * @returns `null` if {@link statusOf} can be called at once: there is a usable copy, or waiting makes no sense. Otherwise a promise
   *   that never rejects and resolves after `maxWaitMs` at the latest; call `statusOf` then.
   */
  refreshIfStale(): Promise<void> | null {
    const now = this.#deps.now();
    const state = this.#stateAt(now);
    if (state === 'fresh') return null;
    // If now is before #lastTime, the clock was set back. That must not delay fetches.
    if (now >= this.#nextStart || now < this.#lastTime) {
      if (this.#ways.isForAll) this.#retries = 0;
      this.#startFetch();
    }
    return state === 'unusable' ? this.#awaited : null;
  }

  /** The status of an index in the present copy. One bit test; never waits. */
  statusOf(index: number): Exclude<RemoteStatus, 'not_configured'> {
    const copy = this.#copy;
    if (copy !== null && this.#stateAt(this.#deps.now()) !== 'unusable') {
      if (index >= countOf(copy.list)) return 'out_of_range';
      return STATUSES[valueAt(copy.list, index)] ?? 'unknown';
    }
    if (!this.#hasRefused && !this.#closed) {
      this.#hasRefused = true;
      const text =
        'there is no usable copy of the status list: receipts with a status list index are refused until it is fetched';
      if (this.#ways.isForAll) this.#deps.log.error({ ...this.#ways.facts, ageSecs: this.ageSecs }, text);
    }
    return 'unavailable';
  }

  /** Forgets the copy. What comes next may not be older. */
  drop(): void {
    this.#copy = null;
  }

  /** Ends the current fetch. No other starts after that. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    this.#stop?.abort();
    await this.#fetching;
  }

  /** How the copy may be used. One from the future is unusable: the clock was set back, so nobody knows its age. */
  #stateAt(now: number): CopyState {
    const { ttlSecs, maxStaleSecs } = this.#options;
    if (this.#copy === null) return 'unusable';
    const { fetchedAt, list } = this.#copy;
    if (now < fetchedAt || now >= list.validUntilMs) return 'unusable';
    const age = now - fetchedAt;
    // The list may ask to be fetched more often, but at most once a second.
    const ttlMs = Math.min(ttlSecs * 1000, Math.max(list.ttlMs, MIN_GAP_MS));
    if (age >= ttlMs) return age < ttlMs + maxStaleSecs * 1000 ? 'stale' : 'unusable';
    const lifetime = Math.min(ttlMs, list.validUntilMs - fetchedAt);
    return age >= lifetime * this.#copy.refreshAt ? 'refresh_due' : 'fresh';
  }

  #startFetch(): void {
    if (this.#closed || this.#fetching !== null) return;
    clearTimeout(this.#retryTimer);
    this.#lastTime = this.#deps.now();
    this.#nextStart = this.#lastTime + MIN_GAP_MS;
    const startedAt = performance.now();
    // One timer for all waiting verifications, from the start of the fetch: a hanging server delays none longer.
    this.#awaited = new Promise((resolve) => {
      const stopWaiting = () => {
        clearTimeout(timer);
        this.#awaited = null;
        resolve();
      };
      const timer = setTimeout(stopWaiting, this.#options.maxWaitMs);
      this.#fetching = this.#fetch().then((outcome) => {
        this.#fetching = null;
        stopWaiting();
        if (!this.#closed) this.#ways.onFetched(outcome, performance.now() - startedAt);
      });
    });
  }

  async #fetch(): Promise<FetchOutcome> {
    const stop = new AbortController();
    this.#stop = stop;
    try {
      const outcome = await this.#ways.inTurn(stop, () => this.#takeOver(stop.signal));
      this.#retries = 0;
      this.#failureLogged = null;
      if (this.#hasRefused) this.#deps.log.info(this.#ways.facts, 'the status list can be fetched again');
      this.#hasRefused = false;
      return outcome;
    } catch (error) {
      const isKnown = error instanceof StatusListError || error instanceof FetchError;
      const fault = isKnown ? error.fault : 'internal';
      this.#noteFailure(fault, error as Error);
      return fault;
    } finally {
      stop.abort();
    }
  }

  async #takeOver(signal: AbortSignal): Promise<'updated' | 'not_modified'> {
    const copy = this.#copy;
    const fetched = await this.#ways.fetch({ signal, etag: copy?.etag });
    const now = this.#deps.now();
    if (fetched === 'not_modified') {
      // A 304 counts only as the answer to a request with the ETag of a copy, so there is one.
      const confirmed = copy as Copy;
      const { validUntilMs } = confirmed.list;
      if (now >= validUntilMs)
        throw new StatusListError(
          'out_of_validity',
          `it has not changed, and was valid until ${isoTime(validUntilMs)}`,
        );
      this.#copy = { ...confirmed, fetchedAt: now };
      this.#lastTime = now;
      return 'not_modified';
    }
    const list = await this.#ways.read(fetched, now);
    // An older list would undo later revocations, and its signature is as valid as the newer one's.
    const from = list.validFromMs;
    if (this.#ways.isPinned && from < this.#newestFromMs) {
      const found = from === -Infinity ? 'it has no validFrom' : `it is valid from ${isoTime(from)}`;
      const expected = `${isoTime(this.#newestFromMs)} as in the present copy, or later`;
      throw new StatusListError('rollback', `${found}, expected ${expected}`);
    }
    this.#newestFromMs = from;
    this.#lastTime = this.#deps.now();
    // Lists of roots that were fetched together are not refreshed together.
    const refreshAt = this.#ways.isForAll ? REFRESH_AT : REFRESH_AT - Math.random() / 5;
    this.#copy = { list, etag: fetched.etag, fetchedAt: this.#lastTime, refreshAt };
    return 'updated';
  }

  #noteFailure(fault: string, error: Error): void {
    if (this.#closed) return;
    const now = this.#deps.now();
    const { isForAll, facts } = this.#ways;
    // Jitter: instances that lost the same server at the same moment must not all retry at the same moment.
    const jitterMs = (MIN_GAP_MS * Math.random()) / 4;
    const backOff = Math.min(MAX_RETRY_MS, MIN_GAP_MS * 2 ** this.#retries);
    if (isForAll) {
      this.#nextStart += jitterMs;
      // Without waiting for a verification: a service that is not ready gets no traffic that would start a fetch.
      const retry = () => {
        this.#retries++;
        this.#startFetch();
      };
      const delay = Math.min(MAX_RETRY_MS, 2 * backOff) * (0.5 + Math.random() / 2);
      this.#retryTimer = setTimeout(retry, delay).unref();
    } else {
      this.#retries++;
      this.#nextStart = now + backOff + jitterMs;
    }
    const last = this.#failureLogged;
    if (last?.fault === fault && (!isForAll || Math.abs(now - last.at) < FAILURE_LOG_MS)) return;
    this.#failureLogged = { fault, at: now };
    this.#deps.log.error(
      { err: error, ...facts, fault, copy: this.#stateAt(now), ageSecs: this.ageSecs },
      `the status list was not accepted: ${error.message}`,
    );
  }
}
