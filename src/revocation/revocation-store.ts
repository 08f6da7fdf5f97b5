/** Where local revocations are kept: in memory, in a file, in Redis. What is asked on the hot path is in memory always. */
export interface RevocationStore {
  /** Revoked indices that this process knows. */
  readonly size: number;
  /** Entries that could not be read, and were skipped. */
  readonly damagedLines: number;
  /**
   * Whether every acknowledged revocation is in this process's copy, also one that another instance acknowledged. Always
   * true where the store is in this process.
   */
  readonly isCurrent: boolean;
  /** Seconds since the copy was last known to be complete; `NaN` where there is nothing to copy. */
  readonly copyAgeSecs: number;
  has(index: number): boolean;
  /**
   * Revokes an index for good.
   *
   * @returns when it is recorded and in force, on every instance that is ready
   * @throws {@link RevocationStoreError} `not_recorded`, `unconfirmed` or `closed`
   */
  record(index: number): Promise<void>;
  /** Finishes what is under way, then lets go of what it holds. */
  close(): Promise<void>;
}
