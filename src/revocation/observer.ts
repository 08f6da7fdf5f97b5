import type { FetchOutcome } from './status-list-error.js';

/** Where this room writes what an operator must know. A pino logger fits as it is. */
export interface RevocationLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** What can be counted and timed here. Every argument is a number or comes from a closed set. */
export interface RevocationObserver {
  /** Block F asked about one index; `remote` only where a usable copy covered the index. */
  lookedUp?(source: 'remote' | 'local', revoked: boolean): void;
  /** One fetch of the status list ended, in milliseconds. */
  statusListFetched?(outcome: FetchOutcome, durationMs: number): void;
  /** The store's file was flushed to disk, in milliseconds. */
  storeSynced?(durationMs: number): void;
  /** A revocation that some instance made came from Redis, milliseconds after it was recorded there. */
  revocationPropagated?(durationMs: number): void;
  /** A line of the store's file was skipped, because it is neither an index nor a comment. */
  storeLineDamaged?(): void;
}
