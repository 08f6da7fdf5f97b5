import { encodeBase64url } from '#platform';
import type { SignatureCheck } from '../../protocol/jwt.js';
import type { KeyResolver } from '../../protocol/key-resolver.js';
import { Failure, type Subject } from '../codes.js';
import type { ReceiptMemory } from '../parts.js';
import type { Invocation, Receipt } from '../receipt.js';
import type { Signed } from './a-b-form.js';

/** What block C has to find out. */
export interface SignaturePlan {
  /** Signatures not yet known to verify, in the order in which they are checked. */
  readonly checks: readonly SignatureCheck[];
  /** What each check is about. One subject has several checks, one after the other, where any of several keys will do. */
  readonly subjects: readonly Subject[];
  /** The failure that follows the last check, if one was found without verifying a signature. */
  readonly failure: Failure | null;
}

/** Block C, first half: which signatures must be verified, up to the first one that cannot be. */
export function planSignatures({ receipts, chain, invocation }: Signed, keys: KeyResolver): SignaturePlan {
  const checks: SignatureCheck[] = [];
  const subjects: Subject[] = [];
  // Those of a known chain have been verified.
  for (let index = 0; chain === null && index < receipts.length; index++) {
    const receipt = receipts[index] as Receipt;
    const { signature } = receipt;
    if (signature === null) continue;
    const found = keys.keysOf(receipt.claims.iss, receipt.kid);
    const failure = findDefect(index, receipt, found, keys);
    if (failure !== null) return { checks, subjects, failure };
    for (const publicKey of found ?? []) {
      const { jwt, signingInputLength } = receipt;
      checks.push({ jwt, signingInputLength, signature, publicKey });
      subjects.push(index);
    }
  }
  if (invocation === null) return { checks, subjects, failure: null };
  const { jwt, signingInputLength, signature, kid } = invocation;
  const found = chain?.invokerKeys ?? keys.keysOf(invocation.claims.iss, kid);
  const failure = findDefect('invocation', invocation, found, keys);
  for (const publicKey of failure === null ? (found ?? []) : []) {
    checks.push({ jwt, signingInputLength, signature, publicKey });
    subjects.push('invocation');
  }
  return { checks, subjects, failure };
}

/** Why a signature need not be looked at. @param found see `KeyResolver.keysOf` */
function findDefect(
  subject: Subject,
  { algorithm, claims }: Receipt | Invocation,
  found: readonly Uint8Array[] | null,
  { expected: resolvable }: KeyResolver,
): Failure | null {
  if (algorithm !== 'EdDSA' && algorithm !== 'Ed25519') {
    const expected = '"EdDSA" or "Ed25519"';
    return new Failure('UNSUPPORTED_ALGORITHM', { subject, claimed: algorithm, expected });
  }
  const claimed = claims.iss;
  if (found === null)
    return new Failure('DID_RESOLUTION_FAILED', {
      subject,
      claimed,
      expected: 'a usable copy of its document',
    });
  return found.length === 0
    ? new Failure('UNRESOLVABLE_DID', { subject, claimed, expected: resolvable })
    : null;
}

/**
 * Block C, second half.
 *
 * @param verified for each check of the plan, whether its signature verified
 * @param cache keeps the receipts whose signature verified; `null` if they must not be kept
 */
export function checkSignatures(
  { receipts }: Pick<Signed, 'receipts'>,
  plan: SignaturePlan,
  verified: readonly boolean[],
  cache: ReceiptMemory | null,
): Failure | null {
  for (let at = 0; at < plan.subjects.length; at++) {
    const subject = plan.subjects[at] as Subject;
    const receipt = typeof subject === 'number' ? (receipts[subject] as Receipt) : null;
    let isVerified = verified[at] === true;
    for (; plan.subjects[at + 1] === subject; at++) isVerified ||= verified[at + 1] === true;
    if (!isVerified) {
      const code = receipt === null ? 'INVALID_INVOCATION_SIGNATURE' : 'INVALID_SIGNATURE';
      const claimed = encodeBase64url((plan.checks[at] as SignatureCheck).signature);
      const expected = `an Ed25519 signature of 64 bytes by ${receipt?.claims.iss ?? 'the last delegate'}`;
      return new Failure(code, { subject, claimed, expected });
    }
    if (receipt === null) continue;
    cache?.addReceipt(receipt);
    receipt.signature = null;
    receipt.kid = null;
  }
  return plan.failure;
}
