import type { FetchOutcome } from './lists/status-list-error.js';

/** The log of the revocation stores and the list cache. A pino logger has this type. */
export type RevocationLog = Record<'info' | 'warn' | 'error', (facts: object, message: string) => void>;

export interface Deps {
  readonly log: RevocationLog;
  readonly observer: RevocationObserver;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** Receives events to count and time. Every argument is a number or comes from a fixed set. */
export interface RevocationObserver {
  /** Block F looked up one index; `remote` only if a usable copy covered the index. */
  lookedUp?(source: 'remote' | 'local', revoked: boolean): void;
  /** A fetch of the operator's list ended; its duration in milliseconds. */
  statusListFetched?(outcome: FetchOutcome, durationMs: number): void;
  /** A fetch of a root's own list ended. */
  rootListFetched?(outcome: FetchOutcome): void;
  /** The store's file was flushed to disk; the duration in milliseconds. */
  storeSynced?(durationMs: number): void;
  /** A revocation arrived from Redis; the delay in milliseconds since Redis recorded it. */
  revocationPropagated?(durationMs: number): void;
}
