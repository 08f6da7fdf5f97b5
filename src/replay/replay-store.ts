/** Why a replay store cannot record invocations. */
export type ReplayUnreadyReason =
  /** No server takes writes: it is away, silent, not the primary, or refuses them. */
  | 'replay_store_unreachable'
  /** Its server may evict a recorded invocation, which could then be replayed. */
  | 'replay_store_evicts'
  /** There is no room for another invocation. */
  | 'replay_store_full';

/** Remembers which invocations were used. */
export interface ReplayStore {
  /**
   * Records an invocation unless it is on record.
   *
   * @param key of `replayKey`
   * @param now Unix seconds
   * @param ttlSecs how long it must stay on record
   * @returns whether it was new; rejects with a {@link ReplayStoreError} if the store cannot tell
   */
  record(key: string, now: number, ttlSecs: number): Promise<boolean>;
  /** Why nothing can be recorded at the moment; `null` if it can. The store finds out by itself, also without calls. */
  readonly unreadyReason: ReplayUnreadyReason | null;
  /** Number of invocations on record, if the store knows. */
  readonly size?: number;
  /** Maximum number of invocations, if the store has a limit of its own. */
  readonly capacity?: number;
  /** Whether its server can be used at the moment. Only stores that depend on a server have this. */
  readonly isAvailable?: boolean;
  /** Releases what the store holds. Nothing may be recorded afterwards. */
  close(): Promise<void>;
}

/** Receives what an operator must know about a store. A pino logger has this type. */
export interface ReplayLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A replay store that cannot tell whether an invocation was used. The call must be refused. */
export class ReplayStoreError extends Error {
  override readonly name = 'ReplayStoreError';
}
