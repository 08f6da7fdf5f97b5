import type { ReadPolicy } from './attenuation.js';
import type { Receipt } from './receipt.js';

/** What an operator says of a root principal. See docs/spec/trust.md. */
export interface Root {
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>> | null;
  /** The first and the last second in which it is trusted, in Unix seconds; `null` for no bound. */
  readonly from: number | null;
  readonly until: number | null;
  /** What it may delegate at most; `null` for anything. */
  readonly policy: ReadPolicy | null;
  /** Root receipts that were found to stay within the policy. Only block D adds to it. It keeps none of them alive. */
  readonly kept: WeakSet<Receipt>;
}

/** The principals that may be roots, at the time when it is asked. */
export interface Roots {
  get(did: string): Root | undefined;
}

/** A root of which nothing more is said than that it is trusted. */
export function plainRoot(): Root {
  return { name: null, labels: null, from: null, until: null, policy: null, kept: new WeakSet() };
}

const ANYBODY = plainRoot();

/**
 * What is said of the root of a chain.
 *
 * @param roots `null` if anybody may be a root
 * @returns `null` if it is not trusted
 */
export function rootOf(roots: Roots | null, { claims }: Receipt): Root | null {
  return roots === null ? ANYBODY : (roots.get(claims.iss) ?? null);
}
