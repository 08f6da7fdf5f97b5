import type { Roots } from './root.js';

/** What an operator decides about verification; constant for the life of a verifier, except who the roots are. */
export interface Rules {
  /** Maximum number of delegation receipts in a bundle. */
  readonly maxChainDepth: number;
  /** Seconds by which `nbf` and `exp` are relaxed. */
  readonly clockSkewSecs: number;
  /** The `tool_server` that invocations must be for; `null` for any. */
  readonly serverIdentity: string | null;
  /** The principals that may be roots; `null` for any. */
  readonly trustedRoots: Roots | null;
}
