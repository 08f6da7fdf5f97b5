import type { KeyResolver } from '../protocol/key-resolver.js';
import { checkCallLinkage, checkReceiptLinkage } from './blocks/a-b-form.js';
import { checkSignatures, planSignatures, type SignaturePlan, type Signed } from './blocks/c-signatures.js';
import { checkDelegations, checkInvocation, checkLevels, checkRootSubject } from './blocks/d-policy.js';
import { checkWindows } from './blocks/e-f-validity.js';
import type { Failure } from './codes.js';
import type { Receipt } from './receipt.js';

// The checks of `judge.ts` that need neither settings nor a memory, in the same order: for whoever issues.

export { readInvocation, readReceipts } from './blocks/a-b-form.js';

/** Everything that can be checked before a signature is verified: block B, and which signatures to verify. */
export function openClaims(signed: Signed, keys: KeyResolver): SignaturePlan | Failure {
  const { receipts, invocation } = signed;
  return (
    checkReceiptLinkage(receipts) ??
    (invocation === null ? null : checkCallLinkage({ receipts, invocation })) ??
    planSignatures(signed, keys)
  );
}

/**
 * Blocks C to E.
 *
 * @param verified for each planned check, whether its signature verifies
 * @param now Unix seconds
 */
export function proveClaims(
  signed: Signed,
  plan: SignaturePlan,
  verified: readonly boolean[],
  now: number,
): Failure | null {
  const { receipts, invocation } = signed;
  const root = receipts[0] as Receipt;
  return (
    checkSignatures(signed, plan, verified, null) ?? // C
    checkRootSubject(root) ?? // D
    checkDelegations(receipts) ??
    (invocation === null ? null : checkInvocation(invocation, root, receipts.at(-1) as Receipt)) ??
    (invocation === null ? null : checkLevels(invocation, receipts)) ??
    checkWindows(signed, now, 0) // E
  );
}
