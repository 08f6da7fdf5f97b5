import type { FetchOutcome } from './lists/status-list-error.js';

/** The log of the revocation stores and the list cache. A pino logger has this type. */
export interface RevocationLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** What each source of revocations is handed. */
export interface Deps {
  readonly log: RevocationLog;
  readonly observer: RevocationObserver;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** Receives events to count and time. Every argument is a number or comes from a fixed set. */
export interface RevocationObserver {
  /** A fetch of the status list ended. */
  statusListFetched?(outcome: FetchOutcome): void;
  /** The store's file was flushed to disk; the duration in milliseconds. */
  storeSynced?(durationMs: number): void;
  /** A revocation arrived from Redis; the delay in milliseconds since Redis recorded it. */
  revocationPropagated?(durationMs: number): void;
}
