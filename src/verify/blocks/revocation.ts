import type { ListedStatus } from '../../protocol/status-claims.js';
import { Failure } from '../codes.js';
import { indexUnder, jtiBy, type JudgeParts, type RemoteStatus } from '../parts.js';
import type { RevocationView, RootList, RootLists } from '../parts.js';
import type { Chain, Receipt } from '../receipt.js';

/**
 * Has the lists fetched that a chain needs, if there is no usable copy of one.
 *
 * @param lists those of its root
 * @returns `null` if there is nothing to wait for
 */
export function refreshLists(
  { receipts, isRevocable, isListed }: Chain,
  lists: RootLists | null,
  revocation: JudgeParts['revocation'],
): Promise<void> | null {
  if (lists === null) return isRevocable ? revocation.refreshIfStale() : null;
  if (!isRevocable && !isListed) return null;
  const named = receipts.flatMap(({ claims: { listed } }) =>
    typeof listed === 'string' ? [] : (listed ?? []),
  );
  const isNeeded = (list: RootList, at: number) =>
    (at === 0 && isRevocable) || named.some((status) => isNamed(list, status));
  return revocation.refreshLists(lists.filter(isNeeded));
}

/**
 * Block F: no receipt is revoked, by its entry in a list, by its digest, by its `jti` or by the keys that it names. Lists are asked
 * first, then the local store.
 *
 * @param lists those of its root
 */
export function checkRevocation(chain: Chain, view: RevocationView, lists: RootLists | null): Failure | null {
  const { receipts, isRevocable, isListed, clearOf } = chain;
  const { names } = view;
  const asksNames = names !== null && names !== clearOf;
  if (!isRevocable && !isListed && !asksNames) return null;
  for (let subject = 0; subject < receipts.length; subject++) {
    const receipt = receipts[subject] as Receipt;
    const unlisted = isRevocable || isListed ? checkStatus(receipt, subject, view, lists) : null;
    // What the local store says is certain. So it comes before a list that is missing or too short.
    const failure =
      (unlisted?.code === 'RECEIPT_REVOKED' ? unlisted : null) ??
      (asksNames ? checkNames(receipt, subject, chain.root.claims.iss, view) : null) ??
      unlisted;
    if (failure !== null) return failure;
  }
  if (asksNames) chain.clearOf = names;
  return null;
}

const LOCAL = 'the local revocation store';
const OPERATORS = 'the remote status list';
const OF_ROOT = 'a status list of its root';

/** Of several failures, the first in this order counts. */
const ORDER = 'RECEIPT_REVOKED STATUS_INDEX_OUT_OF_RANGE REVOCATION_CHECK_FAILED UNKNOWN_STATUS';

/** What the lists say of a receipt, by all of its claims about its status. */
function checkStatus(
  { claims }: Receipt,
  subject: number,
  view: RevocationView,
  lists: RootLists | null,
): Failure | null {
  const { drs_status_list_index: index, listed } = claims;
  const first = lists?.[0];
  let worst: Failure | null = null;
  if (index !== null && first === undefined) {
    const status = view.remoteStatusOf(index);
    const isLocal = status !== 'revoked' && view.isRevokedLocally(index);
    worst = failureOf(
      isLocal ? 'revoked' : status,
      subject,
      'drs_status_list_index',
      index,
      isLocal ? LOCAL : OPERATORS,
    );
  } else if (index !== null && first !== undefined)
    worst = failureOf(statusIn(first, index, view), subject, 'drs_status_list_index', index, OF_ROOT);
  if (listed === null) return worst;
  if (typeof listed === 'string') return worst ?? failureOf('unknown', subject, listed, 0, OF_ROOT);
  for (const one of listed) {
    const list = lists?.find((list) => isNamed(list, one));
    const status = list === undefined ? 'unknown' : statusIn(list, one.index, view);
    const failure = failureOf(status, subject, one.member, one.index, OF_ROOT);
    if (failure !== null && (worst === null || ORDER.indexOf(failure.code) < ORDER.indexOf(worst.code)))
      worst = failure;
  }
  return worst;
}

function isNamed(list: RootList, { list: name, form }: ListedStatus): boolean {
  return list.name === name && (form ?? list.form) === list.form;
}

function statusIn(list: RootList, index: number, view: RevocationView): RemoteStatus {
  return view.statusIn?.(list, index) ?? 'unavailable';
}

/** @param source which list, or what else, says it */
function failureOf(
  status: RemoteStatus,
  subject: number,
  member: string,
  claimed: number,
  source: string,
): Failure | null {
  switch (status) {
    case 'not_configured':
    case 'not_revoked':
      return null;
    case 'revoked':
    case 'suspended': {
      const reason = status === 'suspended' ? `${source} (suspended)` : source;
      const [revoked, expected] = ['status list index', 'an index that is not revoked'];
      return new Failure('RECEIPT_REVOKED', { subject, member: revoked, claimed, reason, expected });
    }
    case 'out_of_range': {
      const expected = `an index inside ${source}`;
      return new Failure('STATUS_INDEX_OUT_OF_RANGE', { subject, member, claimed, expected });
    }
    case 'unavailable': {
      const expected = `a usable copy of ${source}`;
      return new Failure('REVOCATION_CHECK_FAILED', { subject, claimed, expected });
    }
    case 'unknown': {
      const expected = 'drs_status_list_index or no claim about its status';
      return new Failure('UNKNOWN_STATUS', { subject, member, expected });
    }
  }
}

/** Block B has compared each `iss` with the `aud` before it, so only the root's is looked up. */
function checkNames(
  { digest, claims }: Receipt,
  subject: number,
  root: string,
  view: RevocationView,
): Failure | null {
  const { iss, aud, jti, drs_status_list_index, listed } = claims;
  const revoked = (code: 'RECEIPT_REVOKED' | 'KEY_REVOKED', member: string, claimed: string | number) => {
    const expected = `a ${code === 'KEY_REVOKED' ? 'key' : 'receipt'} that is not revoked`;
    return new Failure(code, { subject, member, claimed, reason: LOCAL, expected });
  };
  if (view.isNameRevoked(digest)) return revoked('RECEIPT_REVOKED', 'its digest', digest);
  if (view.isNameRevoked(jtiBy(iss, jti))) return revoked('RECEIPT_REVOKED', 'jti', jti);
  const indices = typeof listed === 'string' ? [] : (listed ?? []).map(({ index }) => index);
  for (const index of drs_status_list_index === null ? indices : [drs_status_list_index, ...indices])
    if (view.isNameRevoked(indexUnder(root, index)))
      return revoked('RECEIPT_REVOKED', 'status list index', index);
  if (subject === 0 && view.isNameRevoked(iss)) return revoked('KEY_REVOKED', 'iss', iss);
  return view.isNameRevoked(aud) ? revoked('KEY_REVOKED', 'aud', aud) : null;
}
