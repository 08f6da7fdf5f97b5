import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import { DID_FORMS, isDid } from '../protocol/key-resolver.js';
import { isCount } from '../protocol/policy.js';
import { show, showTime } from '../verify/codes.js';
import { indexUnder, jtiBy } from '../verify/parts.js';
import { withoutControls } from '../verify/unprintable.js';

/** What a revocation ends: an index of the operator's list, the digest of a receipt (`sha256:…`), a DID, or what {@link jtiBy} or {@link indexUnder} makes. */
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

/** A revocation as JSON: exactly one of the first four members. */
export interface RevocationJson {
  readonly status_list_index?: number;
  /** The digest of a receipt, as `prev_dr_hash` has it. */
  readonly receipt?: string;
  readonly did?: string;
  readonly jti?: string;
  /** With `jti`: who issued the receipt. */
  readonly iss?: string;
  /** With `status_list_index`: the root under which it counts; without it, it counts in the operator's list. */
  readonly root?: string;
  /** At most 200 characters. */
  readonly reason?: string | null;
  /** The `exp` of the receipt in Unix seconds. The entry may be dropped two days later. */
  readonly exp?: number | null;
}

const MAX_REASON_LENGTH = 200;
const isDidText = (value: unknown) => typeof value === 'string' && /^did:[!-~]{1,2000}$/.test(value);
/** What names what an entry ends, and the members that only it has beside it. */
const TARGETS = [
  {
    member: 'status_list_index',
    besides: ['root'],
    expected: 'an integer from 0 to 2^53-1',
    test: isCount,
  },
  {
    member: 'receipt',
    besides: [],
    expected: 'sha256: and 64 lower-case hexadecimal digits, as in prev_dr_hash',
    test: (value: unknown) => typeof value === 'string' && /^sha256:[0-9a-f]{64}$/.test(value),
  },
  { member: 'did', besides: [], expected: 'a DID', test: isDidText },
  {
    member: 'jti',
    besides: ['iss'],
    expected: '"dr:" and 1 to 500 characters',
    test: (value: unknown) =>
      typeof value === 'string' && /^dr:[^]{1,500}$/.test(value) && value.isWellFormed(),
  },
] as const;
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The members that name what an entry ends, the first for people. */
export function membersOf(target: Target): RevocationJson {
  if (typeof target === 'number') return { status_list_index: target };
  const [, kind, did = '', name = ''] = /^(jti|index):(\S+) ([^]*)$/.exec(target) ?? [];
  if (kind === 'jti') return { jti: name, iss: did };
  if (kind === 'index') return { status_list_index: Number(name), root: did };
  return target.startsWith('sha256:') ? { receipt: target } : { did: target };
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
  // A mistyped DID would revoke nothing.
  for (const [member, did] of Object.entries(membersOf(asked.target)))
    if (['did', 'iss', 'root'].includes(member) && !isDid(String(did)))
      return `${member} is ${show(did)}, expected ${DID_FORMS}`;
  return asked;
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
    ...membersOf(target),
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
    return `it has ${row === undefined ? 'none' : 'several'} of status_list_index, receipt, did and jti, expected one`;
  const { member, besides } = row;
  const known: readonly string[] = [member, ...besides, ...optional];
  for (const name of Object.keys(value))
    if (!known.includes(name)) return `it has a member ${show(name)}, expected only ${known.join(', ')}`;
  const defect = findTargetDefect(row, value);
  if (defect !== null) return defect;
  if (reason !== null && (typeof reason !== 'string' || reason.length > MAX_REASON_LENGTH))
    return `reason is ${show(reason)}, expected a string of up to ${MAX_REASON_LENGTH} characters`;
  if (exp !== null && !isCount(exp)) return `exp is ${show(exp)}, expected Unix seconds`;
  if (exp !== null && member !== 'receipt') return `it has exp and ${member}, expected exp only with receipt`;
  return { target: targetOf(value[member] as Target, value), reason, exp };
}

function findTargetDefect({ member, expected, test }: (typeof TARGETS)[number], value: JsonObject) {
  const { [member]: named, root = null, iss } = value;
  if (!test(named)) return `${member} is ${show(named)}, expected ${expected}`;
  if (root !== null && !isDidText(root)) return `root is ${show(root)}, expected a DID`;
  if (member !== 'jti' || isDidText(iss)) return null;
  return `iss is ${show(iss)}, expected a DID, who issued the receipt`;
}

function targetOf(named: Target, { root = null, iss }: JsonObject): Target {
  if (typeof named === 'number') return root === null ? named : indexUnder(root as string, named);
  return iss === undefined ? named : jtiBy(iss as string, named);
}
