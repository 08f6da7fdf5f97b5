import type { SignatureCheck } from '../verify/blocks/c-signatures.js';

/** Figures of a {@link SignatureVerifier}, for metrics; all but `pending` only grow. */
export interface SignatureFigures {
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

/** What can be counted and timed here. Every argument is a number, or comes from a closed set. */
export interface SignatureObserver {
  /** A batch of so many checks was handed to a worker. */
  batchSent?(checks: number): void;
  /** Checks of one bundle were begun; they had waited for so many milliseconds. */
  waited?(milliseconds: number): void;
  /** A batch came back from a worker, so many milliseconds after it was handed over. */
  batchReturned?(milliseconds: number): void;
  /** A worker ended on its own, or did not come back; its batches are verified again on this thread. */
  workerDied?(error: Error): void;
}

/** Verifies Ed25519 signatures, on this thread or on others. */
export interface SignatureVerifier {
  readonly figures: SignatureFigures;
  /** Milliseconds that what is submitted now will wait for a thread, about: as long as what waits takes. */
  readonly waitMs: number;
  /**
   * Verifies signatures that belong together: those of one bundle.
   *
   * @param isWanted asked before work that waited is begun: where nobody waits for it any more, it is dropped
   * @returns for each check, whether libsodium accepted its signature. At once where that is possible. A promise that
   *   rejects says nothing about the signatures: {@link WorkDropped}, or a fault of the verifier.
   */
  verify(checks: readonly SignatureCheck[], isWanted?: () => boolean): boolean[] | Promise<boolean[]>;
  /** Finishes what was submitted, then ends the threads. Nothing may be submitted afterwards. */
  close(): Promise<void>;
}

/** Nobody waited for the result any more, so the work was not done. */
export class WorkDropped extends Error {
  override readonly name = 'WorkDropped';
}
