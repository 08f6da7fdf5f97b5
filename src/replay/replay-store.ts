/**
 * Remembers which invocations were used.
 *
 * A store that lives in this process answers at once, one across a network with a promise: the caller looks which it
 * got, so that the first costs no turn of the event loop.
 */
export interface ReplayStore {
  /**
   * Records an invocation unless it is on record.
   *
   * @param key of {@link replayKey}
   * @param now Unix seconds
   * @param ttlSecs for which it must stay on record
   * @returns whether it was new
   * @throws ReplayStoreError (or rejects with it) where the store cannot tell
   */
  record(key: string, now: number, ttlSecs: number): boolean | Promise<boolean>;
  /** Releases what the store holds. Nothing may be recorded afterwards. */
  close(): Promise<void>;
}

/** A replay store that cannot tell whether an invocation was used. The call must be refused. */
export class ReplayStoreError extends Error {
  override readonly name = 'ReplayStoreError';
}
