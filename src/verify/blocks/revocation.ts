import { Failure } from '../codes.js';
import type { RevocationView } from '../parts.js';
import type { Chain, Receipt } from '../receipt.js';

/**
 * Block F: no receipt is revoked, by its status list index, by its digest or by the keys that it names. The remote list
 * is asked first, then the local store.
 */
export function checkRevocation(chain: Chain, view: RevocationView): Failure | null {
  const { receipts, isRevocable, hasUnreadStatus, clearOf } = chain;
  const { names } = view;
  const asksNames = names !== null && names !== clearOf;
  if (!isRevocable && !hasUnreadStatus && !asksNames) return null;
  for (let subject = 0; subject < receipts.length; subject++) {
    const receipt = receipts[subject] as Receipt;
    const unlisted = isRevocable ? checkIndex(receipt, subject, view) : null;
    // What the local store says is certain. So it comes before a list that is missing or too short.
    const failure =
      (unlisted?.code === 'RECEIPT_REVOKED' ? unlisted : null) ??
      (asksNames ? checkNames(receipt, subject, view) : null) ??
      unlisted ??
      checkUnread(receipt, subject);
    if (failure !== null) return failure;
  }
  if (asksNames) chain.clearOf = names;
  return null;
}

const LOCAL = 'the local revocation store';

function checkIndex({ claims }: Receipt, subject: number, view: RevocationView): Failure | null {
  const claimed = claims.drs_status_list_index;
  if (claimed === null) return null;
  const remote = view.remoteStatusOf(claimed);
  if (remote === 'revoked' || view.isRevokedLocally(claimed)) {
    const [member, expected] = ['status list index', 'an index that is not revoked'];
    const reason = remote === 'revoked' ? 'the remote status list' : LOCAL;
    return new Failure('RECEIPT_REVOKED', { subject, member, claimed, reason, expected });
  }
  if (remote === 'out_of_range') {
    const expected = 'an index inside the remote status list';
    return new Failure('STATUS_INDEX_OUT_OF_RANGE', { subject, claimed, expected });
  }
  if (remote !== 'unavailable') return null;
  const expected = 'a usable copy of the remote status list';
  return new Failure('REVOCATION_CHECK_FAILED', { subject, claimed, expected });
}

/** Whoever put a status into a receipt thinks that it can be revoked by it. */
function checkUnread({ claims: { unread_status: member } }: Receipt, subject: number): Failure | null {
  if (member === null) return null;
  const expected = 'drs_status_list_index or no claim about its status';
  return new Failure('UNKNOWN_STATUS', { subject, member, expected });
}

/** Block B has compared each `iss` with the `aud` before it, so only the root's is looked up. */
function checkNames({ digest, claims }: Receipt, subject: number, view: RevocationView): Failure | null {
  const revoked = (code: 'RECEIPT_REVOKED' | 'KEY_REVOKED', member: string, claimed: string) => {
    const expected = `a ${code === 'KEY_REVOKED' ? 'key' : 'receipt'} that is not revoked`;
    return new Failure(code, { subject, member, claimed, reason: LOCAL, expected });
  };
  if (view.isNameRevoked(digest)) return revoked('RECEIPT_REVOKED', 'its digest', digest);
  if (subject === 0 && view.isNameRevoked(claims.iss)) return revoked('KEY_REVOKED', 'iss', claims.iss);
  return view.isNameRevoked(claims.aud) ? revoked('KEY_REVOKED', 'aud', claims.aud) : null;
}
