import type { Entries } from '../entries.js';
import type { LocalRevocation } from '../entry.js';
import type { Deps } from '../observer.js';

export interface StoreDeps extends Deps {
  readonly maxEntries: number;
}

/** Stores local revocations: in memory, in a file or in Redis. Look-ups always use a copy in memory. */
export interface RevocationStore {
  /** The revocations that this process knows. */
  readonly entries: Entries;
  /** Whether the copy has every acknowledged revocation, other instances' too. Always true if the store is in this process. */
  readonly isCurrent: boolean;
  /** Seconds since the copy was last known to be complete; `NaN` if there is nothing to copy. */
  readonly copyAgeSecs: number;
  /** Replicas without which it acknowledges nothing; 0 if it has all, or does not know. */
  readonly missingReplicas: number;
  /**
   * Records a revocation.
   *
   * @returns resolves when it is recorded and in force on every ready instance
   * @throws {@link RevocationStoreError} `full`, `not_recorded`, `unconfirmed` or `closed`
   */
  record(entry: LocalRevocation): Promise<void>;
  /** Finishes pending writes, then releases its resources. */
  close(): Promise<void>;
}

export type RevocationStoreFault =
  /** Another process has locked the store's file. */
  | 'locked'
  /** The file, or Redis, cannot be opened or read at start, or has something that this version does not know. */
  | 'unreadable'
  /** There are as many entries as are allowed. The revocation is not in force. */
  | 'full'
  /** A revocation could not be recorded, and is not in force. */
  | 'not_recorded'
  /** Redis did not confirm a revocation in time. It may be in force on some or all instances, and may be lost later. */
  | 'unconfirmed'
  /** The store has been closed. */
  | 'closed';

/** The local store could not be opened, or could not record. The message names the file and says what to do next. */
export class RevocationStoreError extends Error {
  override readonly name = 'RevocationStoreError';
  readonly fault: RevocationStoreFault;

  constructor(fault: RevocationStoreFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

export function storeIsFull(maxEntries: number): RevocationStoreError {
  return new RevocationStoreError(
    'full',
    `the revocation store has ${maxEntries} entries, as many as REVOCATION_MAX_ENTRIES allows; raise it, ` +
      'or revoke in the status list',
  );
}
