import { Agent } from 'undici';
import type { RemoteStatus } from '../verify/revocation-view.js';
import { isBitSet } from './bitstring.js';
import { fetchStatusList, withoutSecrets } from './fetch-status-list.js';
import type { RevocationLog, RevocationObserver } from './observer.js';
import { readStatusList, type StatusList } from './read-status-list.js';
import { StatusListError, type FetchOutcome } from './status-list-error.js';

/** Where the remote list is, and how long a copy of it serves. */
export interface StatusListOptions {
  /** `http:` or `https:`. Who controls what it answers decides what is revoked, unless an issuer is pinned. */
  readonly url: string;
  /** Seconds for which a copy serves without a fetch. */
  readonly ttlSecs: number;
  /** Seconds after that for which the copy serves where the fetch fails; 0 fails closed at once. */
  readonly maxStaleSecs: number;
  /** A `did:key` that must have signed the list. */
  readonly issuer?: string | undefined;
}

/** The whole fetch, from the connection to the last byte. */
export const FETCH_TIMEOUT_MS = 10_000;
// A verification that found the copy fresh may finish with it: nobody failed, it only took a moment longer.
const LEASE_MS = 1_000;
const W3C_MIN_ENTRIES = 131_072;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;
const AHEAD_RETRY_MS = 1_000;
const FAILURE_LOG_MS = 10_000;

interface Copy {
  readonly list: StatusList;
  readonly etag: string | undefined;
  readonly fetchedAt: number;
}

/**
 * The remote status list, in memory. Runs on the main thread, which alone reads and writes it.
 *
 * @see spec/service.md §3.1 and §3.2, spec/decisions.md §8
 */
export class StatusListCache {
  readonly #url: URL;
  readonly #ttlMs: number;
  readonly #maxStaleMs: number;
  readonly #issuer: string | undefined;
  readonly #log: RevocationLog;
  readonly #observer: RevocationObserver;
  readonly #now: () => number;
  readonly #timeoutMs: number;
  readonly #agent = new Agent();
  #copy: Copy | null = null;
  /** The one fetch under way; it never rejects. */
  #fetching: Promise<void> | null = null;
  #stop: AbortController | null = null;
  /** Whether a fetch has failed when the copy was no longer fresh. */
  #missFailed = false;
  #aheadNotBefore = -Infinity;
  #retryTimer: NodeJS.Timeout | undefined;
  #closed = false;
  #failureLogged: { fault: string; at: number } | null = null;

  /** @throws TypeError where the URL is none */
  constructor(
    options: StatusListOptions,
    surroundings: {
      log: RevocationLog;
      observer: RevocationObserver;
      now: () => number;
      timeoutMs?: number | undefined;
    },
  ) {
    this.#url = new URL(options.url);
    this.#ttlMs = options.ttlSecs * 1000;
    this.#maxStaleMs = options.maxStaleSecs * 1000;
    this.#issuer = options.issuer;
    this.#log = surroundings.log;
    this.#observer = surroundings.observer;
    this.#now = surroundings.now;
    this.#timeoutMs = surroundings.timeoutMs ?? FETCH_TIMEOUT_MS;
  }

  /** Whether the list has been fetched once. */
  get isReady(): boolean {
    return this.#copy !== null;
  }

  /** Entries of the copy at hand; 0 without one. */
  get entries(): number {
    return this.#copy?.list.entries ?? 0;
  }

  /** Seconds since the copy at hand was fetched or confirmed; `NaN` without one. */
  get ageSecs(): number {
    return this.#copy === null ? Number.NaN : (this.#now() - this.#copy.fetchedAt) / 1000;
  }

  /** Fetches the list in the background, again and again with back-off and jitter until the first success. */
  start(attempt = 0): void {
    void this.#fetchOnce().then(() => {
      if (this.isReady || this.#closed) return;
      const delay = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
      this.#retryTimer = setTimeout(() => {
        if (!this.isReady) this.start(attempt + 1);
      }, delay).unref();
    });
  }

  /**
   * Makes the copy fresh before a verification that needs it.
   *
   * @returns `null` where the copy is fresh; otherwise the one fetch that all wait for, which never rejects. Then
   *   {@link statusOf} decides.
   */
  freshen(): Promise<void> | null {
    if (this.#closed) return null;
    const now = this.#now();
    if (this.#copy === null || !this.#isFresh(this.#copy, now)) return this.#fetchOnce();
    if (now >= this.#copy.fetchedAt + this.#ttlMs * 0.8 && now >= this.#aheadNotBefore)
      void this.#fetchOnce();
    return null;
  }

  /** What the copy at hand says of an index at this moment. One bit test; never waits. */
  statusOf(index: number): Exclude<RemoteStatus, 'not_configured'> {
    const copy = this.#copy;
    if (copy === null || !this.#isUsable(copy, this.#now())) return 'unavailable';
    if (index >= copy.list.entries) return 'out_of_range';
    return isBitSet(copy.list.bits, index) ? 'revoked' : 'not_revoked';
  }

  /** Ends what is under way. Nothing is fetched after that. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    this.#stop?.abort(new StatusListError('unreachable', 'the service is shutting down'));
    await this.#fetching;
    await this.#agent.destroy();
  }

  #isFresh(copy: Copy, now: number): boolean {
    // A clock that was set back would make the copy young again; its age is then unknown.
    return now >= copy.fetchedAt && now < this.#freshUntil(copy);
  }

  #isUsable(copy: Copy, now: number): boolean {
    if (this.#isFresh(copy, now)) return true;
    if (!this.#missFailed) return now < this.#freshUntil(copy) + LEASE_MS;
    const staleUntil = Math.min(copy.fetchedAt + this.#ttlMs + this.#maxStaleMs, copy.list.validUntilMs);
    return now >= copy.fetchedAt && now < staleUntil;
  }

  #freshUntil(copy: Copy): number {
    return Math.min(copy.fetchedAt + this.#ttlMs, copy.list.validUntilMs);
  }

  #fetchOnce(): Promise<void> {
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = null;
    });
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
    const startedAt = performance.now();
    const stop = new AbortController();
    this.#stop = stop;
    const timer = setTimeout(() => {
      stop.abort(new StatusListError('timeout', `it was not there after ${this.#timeoutMs} ms`));
    }, this.#timeoutMs);
    let outcome: FetchOutcome;
    try {
      outcome = await this.#takeOver(stop.signal);
      this.#missFailed = false;
      this.#failureLogged = null;
    } catch (error) {
      outcome = error instanceof StatusListError ? error.fault : 'internal';
      this.#noteFailure(outcome, error as Error);
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
    if (!this.#closed) this.#observer.statusListFetched?.(outcome, performance.now() - startedAt);
  }

  async #takeOver(signal: AbortSignal): Promise<'updated' | 'not_modified'> {
    const copy = this.#copy;
    const fetched = await fetchStatusList(this.#url, { dispatcher: this.#agent, signal, etag: copy?.etag });
    if (fetched.notModified) {
      if (copy === null)
        throw new StatusListError('http_status', 'it answers 304 to an unconditional request');
      const now = this.#now();
      if (now >= copy.list.validUntilMs) {
        const end = new Date(copy.list.validUntilMs).toISOString();
        throw new StatusListError('out_of_validity', `it has not changed, and was valid until ${end}`);
      }
      this.#copy = { ...copy, fetchedAt: now };
      return 'not_modified';
    }
    const { body, contentType, etag } = fetched;
    const list = await readStatusList(body, contentType, { issuer: this.#issuer, nowMs: this.#now() });
    this.#copy = { list, etag, fetchedAt: this.#now() };
    if (list.entries < W3C_MIN_ENTRIES) {
      this.#log.warn(
        { url: withoutSecrets(this.#url), entries: list.entries },
        `the status list has fewer than ${W3C_MIN_ENTRIES} entries, the least that W3C asks for (herd privacy)`,
      );
    }
    return 'updated';
  }

  #noteFailure(fault: string, error: Error): void {
    const now = this.#now();
    if (this.#copy !== null && !this.#isFresh(this.#copy, now)) this.#missFailed = true;
    this.#aheadNotBefore = now + AHEAD_RETRY_MS;
    const last = this.#failureLogged;
    const isRepetition = last?.fault === fault && Math.abs(now - last.at) < FAILURE_LOG_MS;
    if (this.#closed || isRepetition) return;
    this.#failureLogged = { fault, at: now };
    this.#log.error(
      { err: error, url: withoutSecrets(this.#url), fault, ageSecs: this.ageSecs },
      `the status list was not taken over: ${error.message}`,
    );
  }
}
