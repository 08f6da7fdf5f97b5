import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import { DID_FORMS, isDid } from '../protocol/key-resolver.js';
import { isCount } from '../protocol/policy.js';
import { show, showTime } from '../verify/codes.js';
import { withoutControls } from '../verify/unprintable.js';

/** What a revocation ends: a status list index, the digest of a receipt (`sha256:…`), or a DID. */
export type Target = number | string;

export interface RevocationRequest {
  readonly target: Target;
  /** For the log and the list; `null` if none was given. */
  readonly reason: string | null;
  /** The `exp` of the receipt in Unix seconds; `null` if the entry must stay. */
  readonly exp: number | null;
}

/** A local revocation. */
export interface LocalRevocation extends RevocationRequest {
  /** When it was made, in Unix milliseconds; `null` if that is not known. */
  readonly at: number | null;
}

/** A revocation as JSON: exactly one of the first three members. */
export interface RevocationJson {
  readonly status_list_index?: number;
  /** The digest of a receipt, as `prev_dr_hash` has it. */
  readonly receipt?: string;
  readonly did?: string;
  /** At most 200 characters. */
  readonly reason?: string | null;
  /** The `exp` of the receipt in Unix seconds. The entry may be dropped two days later. */
  readonly exp?: number | null;
}

const MAX_REASON_LENGTH = 200;
const TARGETS = [
  { member: 'status_list_index', expected: 'an integer from 0 to 2^53-1', test: isCount },
  {
    member: 'receipt',
    expected: 'sha256: and 64 lower-case hexadecimal digits, as in prev_dr_hash',
    test: (value: unknown) => typeof value === 'string' && /^sha256:[0-9a-f]{64}$/.test(value),
  },
  {
    member: 'did',
    expected: 'a DID',
    test: (value: unknown) => typeof value === 'string' && /^did:[!-~]{1,2000}$/.test(value),
  },
] as const;
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The member that names what an entry ends. */
export function memberOf(target: Target): 'status_list_index' | 'receipt' | 'did' {
  if (typeof target === 'number') return 'status_list_index';
  return target.startsWith('sha256:') ? 'receipt' : 'did';
}

/**
 * Reads what somebody asks to revoke, as `POST /admin/revoke` takes it.
 *
 * @returns what is wrong, as a text
 */
export function readRevocationRequest(
  value: unknown,
  nowMs: number = Date.now(),
): RevocationRequest | string {
  if (!isJsonObject(value))
    return `it is ${show(value)}, expected an object such as { "status_list_index": 7 }`;
  const asked = readMembers(value, ['reason', 'exp']);
  if (typeof asked === 'string') return asked;
  // It would be acknowledged and then dropped; if the time is a slip, the receipt would be accepted again.
  if (hasRunOut(asked, nowMs))
    return `exp is ${showTime(asked.exp ?? 0)}, expected the end of a receipt that has not run out; leave it out if it is not known`;
  if (typeof asked.target === 'number' || !asked.target.startsWith('did:')) return asked;
  // A mistyped DID would revoke nothing.
  return isDid(asked.target) ? asked : `did is ${show(asked.target)}, expected ${DID_FORMS}`;
}

// Receipts can be used for up to an hour after their `exp` (EXPIRY_GRACE_SECS). The rest is for clocks that are wrong.
const KEPT_AFTER_EXP_SECS = 2 * 86_400;

/** Whether an entry is for a receipt that has expired for good. */
export function hasRunOut({ exp }: Pick<LocalRevocation, 'exp'>, nowMs: number): boolean {
  return exp !== null && exp + KEPT_AFTER_EXP_SECS < nowMs / 1000;
}

/** Reads an entry from the JSON text of {@link toJson}. @returns what is wrong, as a text */
export function readEntry(text: string): LocalRevocation | string {
  const { value, defect } = parseStrictJson(text);
  if (defect) return defect.message;
  if (!isJsonObject(value)) return `it is ${show(value)}, expected an object`;
  const asked = readMembers(value, ['at', 'reason', 'exp']);
  if (typeof asked === 'string') return asked;
  const { at = null } = value;
  if (at === null) return { ...asked, at };
  if (typeof at === 'string' && ISO_TIME.test(at) && !Number.isNaN(Date.parse(at)))
    return { ...asked, at: Date.parse(at) };
  return `at is ${show(at)}, expected a time`;
}

/** An entry as JSON text without characters that a terminal may obey, as `GET /admin/revocations` lists it. */
export function toJson({ target, at, reason, exp }: LocalRevocation): string {
  const known = {
    [memberOf(target)]: target,
    ...(at !== null && { at: new Date(at).toISOString() }),
    ...(reason !== null && { reason }),
    ...(exp !== null && { exp }),
  };
  return withoutControls(JSON.stringify(known));
}

function readMembers(value: JsonObject, optional: readonly string[]): RevocationRequest | string {
  const { reason = null, exp = null } = value;
  const [row, ...others] = TARGETS.filter(({ member }) => Object.hasOwn(value, member));
  if (row === undefined || others.length > 0)
    return `it has ${row === undefined ? 'none' : 'several'} of status_list_index, receipt and did, expected one`;
  const { member, expected, test } = row;
  for (const name of Object.keys(value))
    if (name !== member && !optional.includes(name))
      return `it has a member ${show(name)}, expected only ${[member, ...optional].join(', ')}`;
  const target = value[member];
  if (!test(target)) return `${member} is ${show(target)}, expected ${expected}`;
  if (reason !== null && (typeof reason !== 'string' || reason.length > MAX_REASON_LENGTH))
    return `reason is ${show(reason)}, expected a string of up to ${MAX_REASON_LENGTH} characters`;
  if (exp !== null && !isCount(exp)) return `exp is ${show(exp)}, expected Unix seconds`;
  if (exp !== null && member !== 'receipt') return `it has exp and ${member}, expected exp only with receipt`;
  return { target: target as Target, reason, exp };
}
