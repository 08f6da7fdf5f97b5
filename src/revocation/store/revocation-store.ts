import type { Entries } from '../entries.js';
import type { Entry } from '../entry.js';

/** Stores local revocations: in memory, in a file or in Redis. Look-ups always use a copy in memory. */
export interface RevocationStore {
  /** The revocations that this process knows. */
  readonly entries: Entries;
  /**
   * Whether every acknowledged revocation is in this process's copy, also one that another instance acknowledged.
   * Always true if the store is in this process.
   */
  readonly isCurrent: boolean;
  /** Seconds since the copy was last known to be complete; `NaN` if there is nothing to copy. */
  readonly copyAgeSecs: number;
  /**
   * Records a revocation.
   *
   * @returns resolves when it is recorded and in force on every ready instance
   * @throws {@link RevocationStoreError} `full`, `not_recorded`, `unconfirmed` or `closed`
   */
  record(entry: Entry): Promise<void>;
  /** Finishes pending writes, then releases its resources. */
  close(): Promise<void>;
}
