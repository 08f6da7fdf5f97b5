import type { CountedLimits, ReachedLimit } from '../verify/limits.js';

/** The default of `REDIS_TIMEOUT_MS`. */
export const DEFAULT_REDIS_TIMEOUT_MS = 50;

/** Why a replay store cannot record invocations. */
export type ReplayUnreadyReason =
  /** No server takes writes: it is away, silent, not the primary, or refuses them. */
  | 'replay_store_unreachable'
  /** Its server may evict a recorded invocation, which could then be replayed. */
  | 'replay_store_evicts'
  /** There is no room for another invocation. */
  | 'replay_store_full'
  /** Its clock and the clock here are too far apart to say which calls are older than a loss. */
  | 'replay_store_clock';

/** What a call under limited receipts is charged to: all of its limits, or none. */
export interface Charge {
  /**
   * Of the receipts with a limit, root first; at least one. Whatever chain a receipt is in, the first of these is the same:
   * by its digest, a store can keep together what is charged together.
   */
  readonly limits: readonly CountedLimits[];
  /** What the call costs, an integer. It is charged where a receipt limits the cost. */
  readonly costMicroUsd: number;
}

/** What the calls under one receipt have used. */
export interface Usage {
  readonly calls: number;
  /** In micro-dollars; 0 where the receipt does not limit the cost. */
  readonly microUsd: number;
}

/** What became of a use. Only `new` changes anything. */
export type Use =
  /** `usage`: after this call, for each limit of the charge. */
  | { readonly kind: 'new'; readonly usage: readonly Usage[] }
  | { readonly kind: 'replayed' }
  | { readonly kind: 'reached'; readonly limit: ReachedLimit };

/** What one limited receipt was charged besides 1 call, or gets back. */
export interface RefundPart {
  /** Its digest. */
  readonly receipt: string;
  readonly microUsd: number;
}

/** What a call gets back: from all of its limits, or from none. */
export interface Refund {
  /** Of each limit. */
  readonly calls: 0 | 1;
  /** Of each limit of the charge, in its order; at most what it was charged. */
  readonly parts: readonly RefundPart[];
}

/** The answer to a new use without a charge. */
export const NEW: Use = Object.freeze({ kind: 'new', usage: Object.freeze([]) });
/** The answer to a use that is on record. */
export const REPLAYED: Use = Object.freeze({ kind: 'replayed' });

/** Remembers used invocations, and counts what calls under limited receipts use, in one step: no two calls can both take the last one. */
export interface ReplayStore {
  /**
   * Records an invocation and charges its call, unless it is on record or exceeds a limit.
   *
   * @param key of `replayKey`
   * @param now Unix seconds
   * @param ttlSecs how long it must stay on record
   * @param charge `null` if no receipt of the call is limited
   * @param root the root principal's DID: a store with limited room keeps some of it for other principals
   * @returns what became of it; rejects with a {@link ReplayStoreError} if the store cannot tell
   */
  use(key: string, now: number, ttlSecs: number, charge: Charge | null, root?: string): Promise<Use>;
  /**
   * What the calls under a receipt have used.
   *
   * @param receipt its digest, `sha256:` and 64 hex digits
   * @returns `null` if nothing is counted under it; rejects with a {@link ReplayStoreError} if the store cannot tell
   */
  usageOf(receipt: string): Promise<Usage | null>;
  /**
   * Gives back what a call was charged, once for each invocation. A store without this refuses refunds.
   *
   * @param key with which it was charged
   * @returns `repeated` if that was done before; `unknown` if there is no such charge. Then nothing changes. Rejects with a
   *   {@link ReplayStoreError} if the store cannot tell
   */
  refund?(key: string, refund: Refund): Promise<'refunded' | 'repeated' | 'unknown'>;
  /** Why nothing can be recorded at the moment; `null` if it can. The store finds out by itself, also without calls. */
  readonly unreadyReason: ReplayUnreadyReason | null;
  /** Unix seconds: invocations that were used until then may not be on record. 0 or absent: none is known to be missing. */
  readonly lostAt?: number;
  /** Unix seconds: what was counted until then may be less than was used. 0 or absent: it is known not to be. */
  readonly emptiedAt?: number;
  /** Whether this process found the last loss, or another one; `null` or absent if there is none that operators should see. */
  readonly isLossFoundHere?: boolean | null;
  /** How often the store has lost data since it was opened. */
  readonly losses?: number;
  /** How far the clock here is ahead of that of the store, in seconds; absent if it has none of its own. */
  readonly clockAheadSecs?: number;
  /** Number of invocations on record, if the store knows. */
  readonly size?: number;
  /** Maximum number of invocations, if the store has a limit of its own. */
  readonly capacity?: number;
  /** Number of receipts that are counted, if the store knows. */
  readonly counters?: number;
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
