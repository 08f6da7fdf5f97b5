import type { ListedStatus } from '../../protocol/status-claims.js';
import { Failure, type Code } from '../codes.js';
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
  { receipts }: Chain,
  lists: RootLists | null,
  revocation: JudgeParts['revocation'],
): Promise<void> | null {
  const hasIndex = receipts.some(({ claims }) => claims.drs_status_list_index !== null);
  if (lists === null) return hasIndex ? revocation.refreshIfStale() : null;
  const needed = new Set<RootList>(hasIndex ? lists.slice(0, 1) : []);
  for (const { claims } of receipts) {
    const { listed } = claims;
    if (listed === null || typeof listed === 'string') continue;
    for (const one of listed) {
      const list = lists.find(({ name }) => name === one.list);
      if (list !== undefined) needed.add(list);
    }
  }
  return revocation.refreshLists([...needed]);
}

/**
 * Block F: no receipt is revoked, by its entry in a list, by its digest, by its `jti` or by the keys that it names. Lists are asked
 * first, then the local store.
 *
 * @param lists those of its root
 */
export function checkRevocation(chain: Chain, view: RevocationView, lists: RootLists | null): Failure | null {
  const { receipts, isRevocable, clearOf } = chain;
  const { names } = view;
  const asksNames = names !== null && names !== clearOf;
  if (!isRevocable && !asksNames) return null;
  const root = chain.root.claims.iss;
  for (let subject = 0; subject < receipts.length; subject++) {
    const receipt = receipts[subject] as Receipt;
    const unlisted = isRevocable ? checkStatus(receipt, subject, view, lists) : null;
    // What the local store says is certain. So it comes before a list that is missing or too short.
    const failure =
      (unlisted?.code === 'RECEIPT_REVOKED' ? unlisted : null) ??
      (asksNames ? checkNames(receipt, subject, root, view) : null) ??
      unlisted;
    if (failure !== null) return failure;
  }
  if (asksNames) chain.clearOf = names;
  return null;
}

const LOCAL = 'the local revocation store';

/** Of several failures, the first in this order counts. */
const ORDER: readonly Code[] = [
  'RECEIPT_REVOKED',
  'STATUS_INDEX_OUT_OF_RANGE',
  'REVOCATION_CHECK_FAILED',
  'UNKNOWN_STATUS',
];

/** What the lists say of a receipt, by all of its claims about its status. */
function checkStatus(
  { claims }: Receipt,
  subject: number,
  view: RevocationView,
  lists: RootLists | null,
): Failure | null {
  const { drs_status_list_index: index, listed } = claims;
  let worst: Failure | null = null;
  if (index !== null) {
    const [first] = lists ?? [];
    const status = first === undefined ? view.remoteStatusOf(index) : statusIn(first, index, view);
    const isLocal = first === undefined && status !== 'revoked' && view.isRevokedLocally(index);
    worst = failureOf(isLocal ? 'revoked' : status, {
      subject,
      member: 'drs_status_list_index',
      claimed: index,
      list: first === undefined ? 'the remote status list' : 'a status list of its root',
      ...(isLocal && { reason: LOCAL }),
    });
  }
  if (listed === null) return worst;
  const note = (failure: Failure | null) => {
    if (failure !== null && (worst === null || ORDER.indexOf(failure.code) < ORDER.indexOf(worst.code)))
      worst = failure;
  };
  const at = { subject, list: 'a status list of its root' };
  if (typeof listed === 'string') note(failureOf('unknown', { ...at, member: listed, claimed: 0 }));
  else
    for (const { member, form, list: name, index: claimed } of listed) {
      const list = lists?.find((one) => one.name === name && (form ?? one.form) === one.form);
      const status = list === undefined ? 'unknown' : statusIn(list, claimed, view);
      note(failureOf(status, { ...at, member, claimed }));
    }
  return worst;
}

/** How a caller finds the index of a claim. */
const PLACES = {
  drs_status_list_index: 'drs_status_list_index',
  status: 'status.status_list.idx',
  credentialStatus: 'credentialStatus.statusListIndex',
  drs_status: 'drs_status.index',
};

function failureOf(
  status: RemoteStatus,
  at: { subject: number; member: keyof typeof PLACES; claimed: number; list: string; reason?: string },
): Failure | null {
  const { subject, member, claimed, list } = at;
  switch (status) {
    case 'not_configured':
    case 'not_revoked':
      return null;
    case 'revoked':
    case 'suspended': {
      const reason = at.reason ?? (status === 'suspended' ? `${list} (suspended)` : list);
      const expected = 'an index that is not revoked';
      return new Failure('RECEIPT_REVOKED', {
        subject,
        member: 'status list index',
        claimed,
        reason,
        expected,
      });
    }
    case 'out_of_range': {
      const details = { subject, member: PLACES[member], claimed, expected: `an index inside ${list}` };
      return new Failure('STATUS_INDEX_OUT_OF_RANGE', details);
    }
    case 'unavailable':
      return new Failure('REVOCATION_CHECK_FAILED', {
        subject,
        claimed,
        expected: `a usable copy of ${list}`,
      });
    case 'unknown': {
      const expected = 'drs_status_list_index or no claim about its status';
      return new Failure('UNKNOWN_STATUS', { subject, member, expected });
    }
  }
}

function statusIn(list: RootList, index: number, view: RevocationView): RemoteStatus {
  return view.statusIn?.(list, index) ?? 'unavailable';
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
  const indices = Array.isArray(listed) ? (listed as readonly ListedStatus[]).map(({ index }) => index) : [];
  for (const index of [drs_status_list_index, ...indices])
    if (index !== null && view.isNameRevoked(indexUnder(root, index)))
      return revoked('RECEIPT_REVOKED', 'status list index', index);
  if (subject === 0 && view.isNameRevoked(iss)) return revoked('KEY_REVOKED', 'iss', iss);
  return view.isNameRevoked(aud) ? revoked('KEY_REVOKED', 'aud', aud) : null;
}
