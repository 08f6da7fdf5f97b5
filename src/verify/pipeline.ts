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
import type { KeyResolver } from '../protocol/key-resolver.js';
import { Failure } from './codes.js';
import { ReceiptCache } from './receipt-cache.js';
import { Chain } from './receipt.js';
import type { RevocationView } from './revocation-view.js';
import type { Rules } from './rules.js';

/** What a verification reads besides the bundle. */
export interface PipelineDeps {
  readonly rules: Rules;
  readonly cache: ReceiptCache;
  readonly keys: KeyResolver;
}

/** A verification whose next step is to verify the planned signatures. */
export interface PendingVerification {
  readonly structure: Structure;
  readonly plan: SignaturePlan;
  /** {@link KeyResolver.version} of the keys in the plan. */
  readonly keysVersion: number;
}

/**
 * The first half of a verification: everything that can be checked before a signature is verified.
 *
 * @param bundle what `JSON.parse` made of the request; nothing in it is trusted
 */
export function openVerification(
  bundle: unknown,
  { rules, cache, keys }: PipelineDeps,
): PendingVerification | Failure {
  cache.keepFor(keys.version);
  const structure = checkStructure(bundle, rules, cache); // A
  if (structure instanceof Failure) return structure;
  const { receipts, chain } = structure;
  const failure = (chain === null ? checkReceiptLinkage(receipts) : null) ?? checkCallLinkage(structure); // B
  if (failure !== null) return failure;
  const plan = planSignatures(structure, keys); // C, without the signatures
  return { structure, plan, keysVersion: keys.version };
}

/**
 * The second half: signatures, policy and time. The first failure in the order C to E is the verdict, whatever is cached.
 *
 * @param verified for each planned check, whether its signature verified
 * @param now Unix seconds
 * @returns the chain, for which only revocation is left to check; or why the bundle is not valid
 */
export function proveVerification(
  { structure, plan, keysVersion }: PendingVerification,
  verified: readonly boolean[],
  now: number,
  { rules, cache, keys }: PipelineDeps,
): Chain | Failure {
  const { receipts, chain } = structure;
  // If the keys changed meanwhile, nothing is cached: the signatures were verified under the old keys.
  const memory = keysVersion === keys.version ? cache : null;
  const failure =
    checkSignatures(structure, plan, verified, memory) ?? // C
    (chain === null ? checkReceiptPolicies(receipts, rules) : null) ?? // D
    checkCallPolicy(structure, rules) ??
    checkTime(structure, now, rules.clockSkewSecs); // E
  if (failure !== null) return failure;
  if (chain !== null) return chain;
  const proved = new Chain(receipts, keys);
  memory?.addChain(proved);
  return proved;
}

/** Block E once more, for a verification that waited after it. */
export function checkTimeAgain(chain: Chain, now: number, rules: Rules): Failure | null {
  return checkTime({ receipts: chain.receipts, chain }, now, rules.clockSkewSecs);
}

/** The last check of a chain: `null` if none of its receipts is revoked. Then its bundle is valid. */
export function checkRevocationOf(chain: Chain, revocation: RevocationView): Failure | null {
  return checkRevocation(chain, revocation); // F
}

/**
 * Checks receipts without an invocation in blocks A to E.
 *
 * @param verify verifies one signature at once
 * @param now Unix seconds
 */
export function verifyReceipts(
  jwts: readonly string[],
  verify: (check: SignatureCheck) => boolean,
  now: number,
  { rules, keys }: Omit<PipelineDeps, 'cache'>,
): Failure | null {
  const receipts = readReceipts(jwts, new ReceiptCache(0)); // A
  if (receipts instanceof Failure) return receipts;
  const failure = checkReceiptLinkage(receipts); // B
  if (failure !== null) return failure;
  const plan = planSignatures({ receipts, chain: null, invocation: null }, keys);
  return (
    checkSignatures({ receipts }, plan, plan.checks.map(verify), null) ?? // C
    checkReceiptPolicies(receipts, rules) ?? // D
    checkTime({ receipts, chain: null }, now, rules.clockSkewSecs) // E
  );
}
