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
}

/** Verifies Ed25519 signatures, on this thread or on others. */
export interface SignatureVerifier {
  readonly figures: SignatureFigures;
  /** Milliseconds that what is submitted now will wait for a thread, about: as long as what waits takes, and has waited. */
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
