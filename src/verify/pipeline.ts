import { checkStructure, readReceipts, type Structure } from './blocks/a-structure.js';
import { checkLinkage, checkReceiptLinkage } from './blocks/b-linkage.js';
import {
  judgeSignatures,
  planSignatures,
  type SignatureCheck,
  type SignaturePlan,
} from './blocks/c-signatures.js';
import { checkPolicy, checkReceiptPolicies } from './blocks/d-policy.js';
import { checkTime } from './blocks/e-time.js';
import { checkRevocation } from './blocks/f-revocation.js';
import { Failure } from './codes.js';
import { ReceiptCache } from './receipt-cache.js';
import { Chain, type Receipt } from './receipt.js';
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
  const failure = checkLinkage(structure); // B
  if (failure !== null) return failure;
  return { structure, plan: planSignatures(structure) }; // C, without the signatures
}

/**
 * What signatures, policy and time say. The first failure in the order C to E is the verdict, whatever the cache knows.
 *
 * @param isVerified for each planned check, whether its signature verified
 * @param now Unix seconds
 * @returns the chain, of which everything but revocation is proved; or why the bundle is not valid
 */
export function proveVerification(
  { structure, plan }: Opened,
  isVerified: (check: number) => boolean,
  now: number,
  rules: Rules,
  cache: ReceiptCache,
): Chain | Failure {
  return (
    judgeSignatures(structure, plan, isVerified, cache) ?? // C
    checkPolicy(structure, rules) ?? // D
    checkTime(structure, now, rules.clockSkewSecs) ?? // E
    structure.chain ??
    remember(structure.receipts, cache)
  );
}

/** The last word: `null` where nothing of a proved chain is revoked, which makes its bundle valid. */
export function concludeVerification(chain: Chain, revocation: RevocationView): Failure | null {
  return checkRevocation(chain, revocation); // F
}

/**
 * What blocks A to E say of receipts under which nothing is invoked yet.
 *
 * @param verify verifies one signature at once
 * @param now Unix seconds
 */
export function judgeReceipts(
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
    judgeSignatures({ receipts }, plan, (at) => verify(plan.checks[at] as SignatureCheck), cache) ?? // C
    checkReceiptPolicies(receipts, rules) ?? // D
    checkTime({ receipts, chain: null }, now, rules.clockSkewSecs) // E
  );
}

/** Keeps what blocks A to E proved of the receipts alone, for the next call under this chain. */
function remember(receipts: readonly Receipt[], cache: ReceiptCache): Chain {
  const root = receipts[0] as Receipt;
  const leaf = receipts.at(-1) as Receipt;
  for (let at = 1; at < receipts.length; at++)
    cache.link(receipts[at - 1] as Receipt, receipts[at] as Receipt);
  const chain = new Chain(receipts, root, leaf);
  // Only a leaf whose ancestors the cache counts may hold on to them.
  if (leaf.generation !== 'none' && (leaf === root || leaf.parent !== null)) leaf.chain = chain;
  return chain;
}
