import type { SignatureCheck } from '../verify/blocks/c-signatures.js';

/** Signatures that belong together: those of one bundle. Settled exactly once, possibly before `submit` returns. */
export interface SignatureJob {
  readonly checks: readonly SignatureCheck[];
  /** @param isVerified for each check, whether libsodium accepted its signature */
  settle(isVerified: (check: number) => boolean): void;
  /** The signatures could not be verified, which says nothing about them. */
  abandon(error: Error): void;
}

/** Figures of a {@link SignatureVerifier}, for metrics; all but `pending` only grow. */
export interface SignatureFigures {
  /** Checks submitted and not yet settled. */
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
  submit(job: SignatureJob): void;
  /** Settles what was submitted, then ends the threads. Nothing may be submitted afterwards. */
  close(): Promise<void>;
}
