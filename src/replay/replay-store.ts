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
   * @param key of `replayKey`
   * @param now Unix seconds
   * @param ttlSecs for which it must stay on record
   * @returns whether it was new
   * @throws ReplayStoreError (or rejects with it) where the store cannot tell
   */
  record(key: string, now: number, ttlSecs: number): boolean | Promise<boolean>;
  /** Invocations on record, where the store knows. */
  readonly size?: number;
  /** The most invocations that it takes, where it has a limit of its own. */
  readonly capacity?: number;
  /** Whether it can record at the moment, where that depends on somebody else. */
  readonly isAvailable?: boolean;
  /** Releases what the store holds. Nothing may be recorded afterwards. */
  close(): Promise<void>;
}

/** Where a store says what an operator must know. A pino logger fits as it is. */
export interface ReplayLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A replay store that cannot tell whether an invocation was used. The call must be refused. */
export class ReplayStoreError extends Error {
  override readonly name = 'ReplayStoreError';
}
