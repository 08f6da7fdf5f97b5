import { encodeBase64url } from '#platform';
import type { SignatureCheck } from '../../protocol/jwt.js';
import type { KeyResolver } from '../../protocol/key-resolver.js';
import { Failure, type Subject } from '../codes.js';
import type { ReceiptMemory } from '../parts.js';
import type { Invocation, Receipt } from '../receipt.js';
import type { Structure } from './a-b-form.js';

/** What block C has to find out. */
export interface SignaturePlan {
  /** Signatures not yet known to verify, in the order in which they are checked. */
  readonly checks: readonly SignatureCheck[];
  /** What each check is about. */
  readonly subjects: readonly Subject[];
  /** The failure that follows the last check, if one was found without verifying a signature. */
  readonly failure: Failure | null;
}

/** What block C checks: a structure, or receipts without an invocation. */
export type Signed = Pick<Structure, 'receipts' | 'chain'> & { readonly invocation: Invocation | null };

/** Block C, first half: which signatures must be verified, up to the first one that cannot be. */
export function planSignatures({ receipts, chain, invocation }: Signed, keys: KeyResolver): SignaturePlan {
  const checks: SignatureCheck[] = [];
  const subjects: Subject[] = [];
  // Those of a known chain have been verified.
  for (let index = 0; chain === null && index < receipts.length; index++) {
    const receipt = receipts[index] as Receipt;
    const { signature } = receipt;
    if (signature === null) continue;
    const check = planCheck(index, receipt, signature, keys.publicKeyOf(receipt.claims.iss), keys);
    if (check instanceof Failure) return { checks, subjects, failure: check };
    checks.push(check);
    subjects.push(index);
  }
  if (invocation === null) return { checks, subjects, failure: null };
  const key = chain === null ? keys.publicKeyOf(invocation.claims.iss) : chain.invokerKey;
  const check = planCheck('invocation', invocation, invocation.signature, key, keys);
  if (check instanceof Failure) return { checks, subjects, failure: check };
  checks.push(check);
  subjects.push('invocation');
  return { checks, subjects, failure: null };
}

function planCheck(
  subject: Subject,
  { jwt, algorithm, signingInputLength, claims }: Receipt | Invocation,
  signature: Uint8Array,
  publicKey: Uint8Array | null,
  { expected: resolvable }: KeyResolver,
): SignatureCheck | Failure {
  if (algorithm !== 'EdDSA' && algorithm !== 'Ed25519') {
    const expected = '"EdDSA" or "Ed25519"';
    return new Failure('UNSUPPORTED_ALGORITHM', { subject, claimed: algorithm, expected });
  }
  if (publicKey === null) {
    return new Failure('UNRESOLVABLE_DID', { subject, claimed: claims.iss, expected: resolvable });
  }
  return { jwt, signingInputLength, signature, publicKey };
}

/**
 * Block C, second half.
 *
 * @param verified for each check of the plan, whether its signature verified
 * @param cache keeps the receipts whose signature verified; `null` if they must not be kept
 */
export function checkSignatures(
  { receipts }: Pick<Structure, 'receipts'>,
  plan: SignaturePlan,
  verified: readonly boolean[],
  cache: ReceiptMemory | null,
): Failure | null {
  for (let at = 0; at < plan.subjects.length; at++) {
    const subject = plan.subjects[at] as Subject;
    if (verified[at] !== true) {
      const [code, signer] =
        typeof subject === 'number'
          ? (['INVALID_SIGNATURE', (receipts[subject] as Receipt).claims.iss] as const)
          : (['INVALID_INVOCATION_SIGNATURE', 'the last delegate'] as const);
      const { signature } = plan.checks[at] as SignatureCheck;
      const claimed = encodeBase64url(signature);
      const expected = `an Ed25519 signature of 64 bytes by ${signer}`;
      return new Failure(code, { subject, claimed, expected });
    }
    if (typeof subject === 'number') {
      const receipt = receipts[subject] as Receipt;
      cache?.addReceipt(receipt);
      receipt.signature = null;
    }
  }
  return plan.failure;
}
