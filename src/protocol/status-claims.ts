import { isJsonObject } from './json.js';
import { isCount } from './policy.js';

/** A claim by which a receipt can be revoked in a list that it names. */
export interface ListedStatus {
  readonly member: 'status' | 'credentialStatus' | 'drs_status';
  /** The form that the list must have; `null` for any. */
  readonly form: 'w3c' | 'token' | null;
  readonly list: string;
  readonly index: number;
}

/** The claims that name lists: of the IETF, the W3C and the public protocol. Nobody has checked them. */
export interface StatusClaims {
  readonly status?: unknown;
  readonly credentialStatus?: unknown;
  readonly drs_status?: unknown;
}

const MAX_ENTRIES = 16;

type Read = ListedStatus | ListedStatus['member'];

/**
 * Reads the claims that name lists.
 *
 * @returns what they name, `null` if there are none; or the first claim that has another form. Whoever put it into a receipt thinks
 *   that the receipt can be revoked by it
 */
export function readStatusClaims(
  claims: StatusClaims,
): readonly ListedStatus[] | ListedStatus['member'] | null {
  const { status = null, credentialStatus = null, drs_status = null } = claims;
  // Nearly every receipt.
  if (status === null && credentialStatus === null && drs_status === null) return null;
  const read: Read[] = status === null ? [] : [readStatus(status)];
  if (credentialStatus !== null) {
    const entries: readonly unknown[] = Array.isArray(credentialStatus)
      ? credentialStatus
      : [credentialStatus];
    const isRight = entries.length > 0 && entries.length <= MAX_ENTRIES;
    read.push(...(isRight ? entries.map(readEntry) : ['credentialStatus' as const]));
  }
  if (drs_status !== null)
    read.push(listed('drs_status', null, memberOf(drs_status, 'list_url'), memberOf(drs_status, 'index')));
  return read.find((one) => typeof one === 'string') ?? (read as ListedStatus[]);
}

function readStatus(status: unknown): Read {
  // Another mechanism beside the list could say something else.
  const isAlone = isJsonObject(status) && Object.keys(status).length === 1;
  const list = isAlone ? status['status_list'] : null;
  return listed('status', 'token', memberOf(list, 'uri'), memberOf(list, 'idx'));
}

function readEntry(entry: unknown): Read {
  const digits = memberOf(entry, 'statusListIndex');
  const isRight =
    memberOf(entry, 'type') === 'BitstringStatusListEntry' &&
    memberOf(entry, 'statusPurpose') === 'revocation' &&
    (memberOf(entry, 'statusSize') ?? 1) === 1 &&
    typeof digits === 'string' &&
    /^(?:0|[1-9]\d{0,15})$/.test(digits);
  const list = memberOf(entry, 'statusListCredential');
  return listed('credentialStatus', 'w3c', list, isRight ? Number(digits) : null);
}

function listed(
  member: ListedStatus['member'],
  form: ListedStatus['form'],
  list: unknown,
  index: unknown,
): Read {
  return typeof list === 'string' && isCount(index) ? { member, form, list, index } : member;
}

function memberOf(value: unknown, name: string): unknown {
  return isJsonObject(value) ? value[name] : undefined;
}
