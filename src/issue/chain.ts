import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { Failure, showTime } from '../verify/codes.js';
import { openReceipts, proveReceipts, readReceipts } from '../verify/judge.js';
import { NO_MEMORY } from '../verify/receipt-memory.js';
import type { Receipt } from '../verify/receipt.js';
import type { Rules } from '../verify/rules.js';
import { asIssueError, IssueError, refusal } from './issue-error.js';
import { after, verifierFor, type AnySigner, type Eventual } from './signer.js';

/** The verifiers' default limit for the number of receipts (`MAX_CHAIN_DEPTH`). */
export const DEFAULT_MAX_CHAIN_DEPTH = 16;

/** The rules of a verifier without trust settings. */
export function rulesFor(maxChainDepth: number): Rules {
  return { maxChainDepth, clockSkewSecs: 0, serverIdentity: null, trustedRoots: null };
}

/**
 * Decodes a chain, root first, and checks the shape of each receipt (block A). Nothing between two receipts is
 * checked, and no signature.
 *
 * @throws IssueError if there is no receipt, or one is malformed
 */
export function readChain(jwts: readonly string[]): [Receipt, ...Receipt[]] {
  const receipts = readReceipts(jwts, NO_MEMORY);
  if (receipts instanceof Failure) throw asIssueError(receipts);
  const [root, ...rest] = receipts;
  if (root !== undefined) return [root, ...rest];
  const expected = 'at least a root receipt';
  throw refusal('EMPTY_CHAIN', { subject: 'bundle', member: 'receipts', claimed: jwts, expected });
}

/**
 * Checks receipts like a verifier, with blocks A to E. Receipts may be issued in advance: if the leaf's `nbf` is
 * later than `now` (Unix seconds), all receipts are checked as of `nbf` instead.
 *
 * @param key whoever issues; for a `Signer` the result is a promise
 */
export function requireValidChain(
  key: AnySigner,
  jwts: readonly string[],
  now: number,
  maxChainDepth: number,
): Eventual<void> {
  if (jwts.length > maxChainDepth) {
    const expected = `at most ${maxChainDepth}`;
    throw refusal('CHAIN_TOO_DEEP', {
      subject: 'bundle',
      member: 'receipts',
      claimed: jwts.length,
      expected,
    });
  }
  const leaf = readChain(jwts).at(-1) as Receipt;
  const deps = { rules: rulesFor(maxChainDepth), keys: DEFAULT_KEYS };
  const opened = openReceipts(jwts, deps);
  if (opened instanceof Failure) throw asIssueError(opened);
  return after(verifierFor(key)(opened.plan.checks), (verified) => {
    const failure = proveReceipts(opened, verified, Math.max(now, leaf.claims.nbf), deps);
    if (failure !== null) throw asIssueError(failure);
  });
}

/** Requires that the validity period of a new receipt is not empty and has not ended. It may begin later. */
export function requireUnexpired({ claims: { nbf, exp } }: Receipt, subject: number, now: number): void {
  if (exp === null) return;
  if (exp < nbf) {
    const found = `Receipt ${subject}: exp is ${showTime(exp)}, expected at least its nbf ${showTime(nbf)}`;
    throw new IssueError('TEMPORAL_BOUNDS_VIOLATION', found, 'Raise exp.');
  }
  if (exp < now) {
    throw refusal('EXPIRED', {
      subject,
      time: exp,
      expected: `a time of at least ${showTime(now)}, which is now`,
    });
  }
}

/** Requires that the delegate's DID resolves to a key. Otherwise the delegate could neither delegate nor invoke. */
export function requireResolvable(did: string, subject: number): void {
  if (DEFAULT_KEYS.publicKeyOf(did) !== null) return;
  throw refusal('UNRESOLVABLE_DID', { subject, claimed: did, expected: DEFAULT_KEYS.expected });
}
