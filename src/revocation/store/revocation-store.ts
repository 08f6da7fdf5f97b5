/** Stores local revocations: in memory, in a file or in Redis. Look-ups always use a copy in memory. */
export interface RevocationStore {
  /** Revoked indices that this process knows. */
  readonly size: number;
  /**
   * Whether every acknowledged revocation is in this process's copy, also one that another instance acknowledged.
   * Always true if the store is in this process.
   */
  readonly isCurrent: boolean;
  /** Seconds since the copy was last known to be complete; `NaN` if there is nothing to copy. */
  readonly copyAgeSecs: number;
  has(index: number): boolean;
  /**
   * Revokes an index for good.
   *
   * @returns resolves when it is recorded and in force on every ready instance
   * @throws {@link RevocationStoreError} `not_recorded`, `unconfirmed` or `closed`
   */
  record(index: number): Promise<void>;
  /** Finishes pending writes, then releases its resources. */
  close(): Promise<void>;
}
