import type { SignatureCheck } from '../protocol/jwt.js';

/** Counters of a {@link SignatureVerifier}, for metrics; all but `pending` only grow. */
export interface SignatureStats {
  /** Checks submitted and not yet verified. */
  readonly pending: number;
  readonly inThread: number;
  readonly pooled: number;
  readonly batches: number;
  /** Batches that were repeated in-thread because their worker died. */
  readonly repeated: number;
  /** Worker threads that take batches. */
  readonly workers: number;
}

/** Receives events to count and time. Every argument is a number, or comes from a fixed set. */
export interface SignatureObserver {
  /** A batch with this number of checks was handed to a worker. */
  batchSent?(checks: number): void;
  /** The checks of one bundle were begun, after they had waited for this time. */
  waited?(milliseconds: number): void;
  /** A worker returned a batch, this time after it was handed over. */
  batchReturned?(milliseconds: number): void;
  /** A worker ended on its own, or did not come back; its batches are verified again on this thread. */
  workerDied?(error: Error): void;
  /** A batch has come back that was given up; workers get work again. */
  workersBack?(): void;
}

/** Verifies Ed25519 signatures, on this thread or on others. */
export interface SignatureVerifier {
  readonly stats: SignatureStats;
  /** Estimated wait for a thread of a signature that is submitted now, in milliseconds: the time that waiting ones take. */
  readonly waitMs: number;
  /**
   * Verifies signatures that belong together: those of one bundle.
   *
   * @param isWanted called before queued work is begun; false drops the work
   * @returns for each check, whether libsodium accepted its signature: at once if possible, else as a promise. If the
   *   promise rejects, that says nothing about the signatures: {@link WorkDropped}, or a fault of the verifier.
   */
  verify(checks: readonly SignatureCheck[], isWanted?: () => boolean): boolean[] | Promise<boolean[]>;
  /** Finishes what was submitted, then ends the threads. Nothing may be submitted afterwards. */
  close(): Promise<void>;
}

/** Nobody waited for the result any more, so the work was not done. */
export class WorkDropped extends Error {
  override readonly name = 'WorkDropped';
}
