import { Failure, showTime } from '../codes.js';
import { laterFailure } from '../later-codes.js';
import type { RevocationView, Root } from '../parts.js';
import type { Chain, Receipt } from '../receipt.js';
import type { Structure } from './a-b-form.js';

/**
 * Block E for receipts: the time lies inside every receipt's window, all bounds inclusive, and each window inside its
 * parent's.
 *
 * @param now Unix seconds
 * @param skew seconds by which both bounds are relaxed
 */
export function checkWindows(
  { receipts, chain }: Pick<Structure, 'receipts' | 'chain'>,
  now: number,
  skew: number,
): Failure | null {
  for (let index = 0; index < receipts.length; index++) {
    const receipt = receipts[index] as Receipt;
    const parent = chain === null ? receipts[index - 1] : undefined;
    const failure =
      checkWindow(receipt, index, now, skew) ??
      (parent === undefined ? null : checkNesting(parent, receipt, index));
    if (failure !== null) return failure;
  }
  return null;
}

/**
 * Block E for the root: the time lies inside its entry. The skew does not count: the operator's dates are by the clock of
 * this verifier.
 *
 * @param trusted what the operator says of the root
 * @param now Unix seconds
 */
export function checkEntry({ from, until }: Root, now: number): Failure | null {
  if (from !== null && now < from) {
    const expected = `a time of at most ${showTime(now)}, which is now`;
    return laterFailure('ROOT_NOT_YET_VALID', { subject: 0, time: from, expected });
  }
  if (until !== null && now > until) {
    const expected = `a time of at least ${showTime(now)}, which is now`;
    return laterFailure('ROOT_EXPIRED', { subject: 0, time: until, expected });
  }
  return null;
}

function checkWindow(
  { claims: { nbf, exp } }: Receipt,
  subject: number,
  now: number,
  skew: number,
): Failure | null {
  const allowance = skew === 0 ? '' : ` give or take ${skew} s of clock skew`;
  if (now < nbf - skew) {
    const expected = `a time of at most ${showTime(now)}${allowance}, which is now`;
    return new Failure('NOT_YET_VALID', { subject, time: nbf, expected });
  }
  if (now > (exp ?? Infinity) + skew) {
    const expected = `a time of at least ${showTime(now)}${allowance}, which is now`;
    return new Failure('EXPIRED', { subject, time: exp ?? undefined, expected });
  }
  return null;
}

function checkNesting(parent: Receipt, child: Receipt, subject: number): Failure | null {
  const { nbf: from, exp: until } = parent.claims;
  const { nbf, exp } = child.claims;
  if (nbf < from) {
    return new Failure('TEMPORAL_BOUNDS_VIOLATION', {
      subject,
      member: 'nbf',
      time: nbf,
      expected: `at least ${showTime(from)}`,
    });
  }
  if (until !== null && (exp ?? Infinity) > until) {
    return new Failure('TEMPORAL_BOUNDS_VIOLATION', {
      subject,
      member: 'exp',
      time: exp ?? undefined,
      expected: `at most ${showTime(until)}`,
    });
  }
  return null;
}

/**
 * Block F: no receipt is revoked, by its status list index, by its digest or by the keys that it names. The remote list
 * is asked first, then the local store.
 */
export function checkRevocation(chain: Chain, view: RevocationView): Failure | null {
  const { receipts, isRevocable, clearOf } = chain;
  const { names } = view;
  const asksNames = names !== null && names !== clearOf;
  if (!isRevocable && !asksNames) return null;
  for (let subject = 0; subject < receipts.length; subject++) {
    const receipt = receipts[subject] as Receipt;
    const unlisted = isRevocable ? checkIndex(receipt, subject, view) : null;
    // What the local store says is certain. So it comes before a list that is missing or too short.
    const failure =
      (unlisted?.code === 'RECEIPT_REVOKED' ? unlisted : null) ??
      (asksNames ? checkNames(receipt, subject, view) : null) ??
      unlisted;
    if (failure !== null) return failure;
  }
  if (asksNames) chain.clearOf = names;
  return null;
}

const LOCAL = 'the local revocation store';

function checkIndex({ claims }: Receipt, subject: number, view: RevocationView): Failure | null {
  const index = claims.drs_status_list_index;
  if (index === null) return null;
  const remote = view.remoteStatusOf(index);
  if (remote === 'revoked' || view.isRevokedLocally(index))
    return laterFailure('RECEIPT_REVOKED', {
      subject,
      member: 'status list index',
      claimed: index,
      reason: remote === 'revoked' ? 'the remote status list' : LOCAL,
      expected: 'an index that is not revoked',
    });
  switch (remote) {
    case 'out_of_range':
      return laterFailure('STATUS_INDEX_OUT_OF_RANGE', {
        subject,
        claimed: index,
        expected: 'an index inside the remote status list',
      });
    case 'unavailable':
      return laterFailure('REVOCATION_CHECK_FAILED', {
        subject,
        claimed: index,
        expected: 'a usable copy of the remote status list',
      });
    default:
      return null;
  }
}

/** Block B has compared each `iss` with the `aud` before it, so only the root's is looked up. */
function checkNames({ digest, claims }: Receipt, subject: number, view: RevocationView): Failure | null {
  const revoked = (code: 'RECEIPT_REVOKED' | 'KEY_REVOKED', member: string, claimed: string) =>
    laterFailure(code, {
      ...{ subject, member, claimed, reason: LOCAL },
      expected: `a ${code === 'KEY_REVOKED' ? 'key' : 'receipt'} that is not revoked`,
    });
  if (view.isNameRevoked(digest)) return revoked('RECEIPT_REVOKED', 'its digest', digest);
  if (subject === 0 && view.isNameRevoked(claims.iss)) return revoked('KEY_REVOKED', 'iss', claims.iss);
  return view.isNameRevoked(claims.aud) ? revoked('KEY_REVOKED', 'aud', claims.aud) : null;
}
