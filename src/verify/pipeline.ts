import { checkStructure, readReceipts, type Structure } from './blocks/a-structure.js';
import { checkCallLinkage, checkReceiptLinkage } from './blocks/b-linkage.js';
import {
  checkSignatures,
  planSignatures,
  type SignatureCheck,
  type SignaturePlan,
} from './blocks/c-signatures.js';
import { checkCallPolicy, checkReceiptPolicies } from './blocks/d-policy.js';
import { checkTime } from './blocks/e-time.js';
import { checkRevocation } from './blocks/f-revocation.js';
import { Failure } from './codes.js';
import { ReceiptCache } from './receipt-cache.js';
import { Chain } from './receipt.js';
import type { RevocationView } from './revocation-view.js';
import type { Rules } from './rules.js';

/** A verification whose next step is to verify the planned signatures. */
export interface Opened {
  readonly structure: Structure;
  readonly plan: SignaturePlan;
}

/**
 * What can be told of a bundle before any signature is verified.
 *
 * @param bundle what `JSON.parse` made of the request; trusted in nothing
 */
export function openVerification(bundle: unknown, rules: Rules, cache: ReceiptCache): Opened | Failure {
  const structure = checkStructure(bundle, rules, cache); // A
  if (structure instanceof Failure) return structure;
  const { receipts, chain } = structure;
  const failure = (chain === null ? checkReceiptLinkage(receipts) : null) ?? checkCallLinkage(structure); // B
  if (failure !== null) return failure;
  return { structure, plan: planSignatures(structure) }; // C, without the signatures
}

/**
 * What signatures, policy and time say. The first failure in the order C to E is the verdict, whatever the cache knows.
 *
 * @param verified for each planned check, whether its signature verified
 * @param now Unix seconds
 * @returns the chain, of which everything but revocation is proved; or why the bundle is not valid
 */
export function proveVerification(
  { structure, plan }: Opened,
  verified: readonly boolean[],
  now: number,
  rules: Rules,
  cache: ReceiptCache,
): Chain | Failure {
  const { receipts, chain } = structure;
  const failure =
    checkSignatures(structure, plan, verified, cache) ?? // C
    (chain === null ? checkReceiptPolicies(receipts, rules) : null) ?? // D
    checkCallPolicy(structure, rules) ??
    checkTime(structure, now, rules.clockSkewSecs); // E
  if (failure !== null) return failure;
  if (chain !== null) return chain;
  const proved = new Chain(receipts);
  cache.addChain(proved);
  return proved;
}

/** Block E once more, for a verification that waited after it. */
export function checkTimeAgain(chain: Chain, now: number, rules: Rules): Failure | null {
  return checkTime({ receipts: chain.receipts, chain }, now, rules.clockSkewSecs);
}

/** The last word: `null` where nothing of a proved chain is revoked, which makes its bundle valid. */
export function checkRevocationOf(chain: Chain, revocation: RevocationView): Failure | null {
  return checkRevocation(chain, revocation); // F
}

/**
 * What blocks A to E say of receipts under which nothing is invoked yet.
 *
 * @param verify verifies one signature at once
 * @param now Unix seconds
 */
export function verifyReceipts(
  jwts: readonly string[],
  verify: (check: SignatureCheck) => boolean,
  now: number,
  rules: Rules,
): Failure | null {
  const cache = new ReceiptCache(0);
  const receipts = readReceipts(jwts, cache); // A
  if (receipts instanceof Failure) return receipts;
  const failure = checkReceiptLinkage(receipts); // B
  if (failure !== null) return failure;
  const plan = planSignatures({ receipts, chain: null, invocation: null });
  return (
    checkSignatures({ receipts }, plan, plan.checks.map(verify), cache) ?? // C
    checkReceiptPolicies(receipts, rules) ?? // D
    checkTime({ receipts, chain: null }, now, rules.clockSkewSecs) // E
  );
}
