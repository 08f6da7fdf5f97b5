import { Failure } from '../codes.js';
import type { Chain, Receipt } from '../receipt.js';
import type { RevocationView } from '../revocation-view.js';

/** Block F: no receipt that has a status list index is revoked; the remote list is asked first, then the local store. */
export function checkRevocation({ receipts, isRevocable }: Chain, view: RevocationView): Failure | null {
  if (!isRevocable) return null;
  for (let subject = 0; subject < receipts.length; subject++) {
    const failure = checkReceipt(receipts[subject] as Receipt, subject, view);
    if (failure !== null) return failure;
  }
  return null;
}

function checkReceipt({ claims }: Receipt, subject: number, view: RevocationView): Failure | null {
  const index = claims.drs_status_list_index;
  if (index === null) return null;
  const revoked = (reason: string) =>
    new Failure('RECEIPT_REVOKED', {
      subject,
      claimed: index,
      reason,
      expected: 'an index that is not revoked',
    });
  switch (view.remoteStatusOf(index)) {
    case 'revoked':
      return revoked('the remote status list');
    case 'out_of_range':
      // A local revocation counts even if the remote list has no such index.
      return view.isRevokedLocally(index)
        ? revoked('the local revocation store')
        : new Failure('STATUS_INDEX_OUT_OF_RANGE', {
            subject,
            claimed: index,
            expected: 'an index inside the remote status list',
          });
    case 'unavailable':
      return view.isRevokedLocally(index)
        ? revoked('the local revocation store')
        : new Failure('REVOCATION_CHECK_FAILED', {
            subject,
            claimed: index,
            expected: 'a usable copy of the remote status list',
          });
    default:
      return view.isRevokedLocally(index) ? revoked('the local revocation store') : null;
  }
}
