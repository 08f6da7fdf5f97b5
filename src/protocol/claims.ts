import { CONSENT_MEMBERS, findConsentDefect, type Consent } from './consent.js';
import { isJsonObject, type JsonObject, type JsonValue } from './json.js';
import { isCount, readPolicy, type Policy, type PolicyLimit } from './policy.js';

/** The version that `drs_v` and `bundle_version` carry. */
export const DRS_VERSION = '4.0';

/** `drs_type` of a delegation receipt. */
export const RECEIPT_TYPE = 'delegation-receipt';

/** `drs_type` of an invocation receipt. */
export const INVOCATION_TYPE = 'invocation-receipt';

export type { Consent } from './consent.js';

/**
 * The payload of a delegation receipt; times in Unix seconds. In an optional member, `null` means the same as absence:
 * issuers sign `null` for what their caller left undefined.
 */
export interface ReceiptClaims {
  readonly drs_type: typeof RECEIPT_TYPE;
  readonly drs_v: typeof DRS_VERSION;
  readonly iss: string;
  readonly aud: string;
  readonly sub: string;
  readonly cmd: string;
  readonly policy: Policy;
  readonly iat: number;
  readonly nbf: number;
  /** `null` or absent: a standing delegation, which never expires by itself. */
  readonly exp?: number | null;
  readonly jti: string;
  readonly prev_dr_hash?: string | null;
  /** Root only. */
  readonly drs_root_type?: string | null;
  /** Root only. */
  readonly drs_consent?: Consent | null;
  readonly drs_status_list_index?: number | null;
}

/** The payload of an invocation receipt; times in Unix seconds. */
export interface InvocationClaims {
  readonly drs_type: typeof INVOCATION_TYPE;
  readonly drs_v: typeof DRS_VERSION;
  readonly iss: string;
  readonly sub: string;
  readonly cmd: string;
  readonly args: JsonObject;
  readonly dr_chain: readonly string[];
  readonly iat: number;
  readonly jti: string;
  readonly tool_server: string;
}

/** Where a receipt stands in its chain, as far as its claims depend on it. */
export interface ReceiptPlace {
  readonly isRoot: boolean;
  /** Whether the chain's root is `human`; has no meaning if `isRoot`. */
  readonly underHumanRoot: boolean;
}

/** The first thing wrong with a set of claims. `found` is the claimed value, `undefined` if it is missing. */
export interface ClaimDefect {
  readonly kind: 'type' | 'version' | 'claim' | 'jti' | 'consent' | 'consent form';
  readonly claim: string;
  readonly found: JsonValue | undefined;
  readonly expected: string;
}

/** What a claim has to be. */
interface Rule {
  readonly expected: string;
  readonly test: (value: JsonValue | undefined) => boolean;
}

const text: Rule = { expected: 'a string', test: (value) => typeof value === 'string' };
const time: Rule = { expected: 'an integer from 0 to 2^53-1 (Unix seconds)', test: isCount };
const command: Rule = { expected: 'a path such as "/mcp/tools/call"', test: (value) => isCommandPath(value) };
const parentDigest: Rule = {
  expected: 'a string, or null in the root',
  test: (value) => (value ?? null) === null || typeof value === 'string',
};
const statusListIndex: Rule = {
  expected: 'an integer from 0 to 2^53-1',
  test: (value) => (value ?? null) === null || isCount(value),
};
const object: Rule = { expected: 'an object', test: isJsonObject };
const texts: Rule = {
  expected: 'an array of strings',
  test: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
};
const nonEmptyText: Rule = {
  expected: 'a non-empty string',
  test: (value) => typeof value === 'string' && value !== '',
};

/**
 * Reads the claims of a delegation receipt. Unknown members are ignored.
 *
 * @returns the claims and the limits of their policy, or the first defect in the order of block A
 */
export function readReceiptClaims(
  payload: JsonObject,
  place: ReceiptPlace,
):
  | { claims: ReceiptClaims; limits: PolicyLimit[]; defect?: never }
  | { defect: ClaimDefect; claims?: never; limits?: never } {
  const { limits, defect: policyDefect } = readPolicyClaim(payload);
  // Each claim has its own line of code: a look-up by a variable name, as in a table, takes V8's slowest path.
  const defect =
    findTypeDefect(payload, RECEIPT_TYPE) ??
    check('iss', payload['iss'], text) ??
    check('aud', payload['aud'], text) ??
    check('sub', payload['sub'], text) ??
    check('cmd', payload['cmd'], command) ??
    check('iat', payload['iat'], time) ??
    check('nbf', payload['nbf'], time) ??
    check('jti', payload['jti'], text) ??
    check('prev_dr_hash', payload['prev_dr_hash'], parentDigest) ??
    check('drs_status_list_index', payload['drs_status_list_index'], statusListIndex) ??
    policyDefect ??
    (place.isRoot ? findRootDefect(payload) : null) ??
    findExpiryDefect(payload, place.isRoot ? payload['drs_root_type'] === 'human' : place.underHumanRoot) ??
    findJtiDefect(payload, 'dr:') ??
    (place.isRoot ? (findMissingConsent(payload) ?? findOddConsent(payload)) : null);
  // The checks above prove that the payload has this type.
  return defect ? { defect } : { claims: payload as unknown as ReceiptClaims, limits };
}

/**
 * Reads the claims of an invocation receipt. Unknown members are ignored.
 *
 * @returns the claims, or the first defect in the order of block A
 */
export function readInvocationClaims(
  payload: JsonObject,
): { claims: InvocationClaims; defect?: never } | { defect: ClaimDefect; claims?: never } {
  const defect =
    findTypeDefect(payload, INVOCATION_TYPE) ??
    check('iss', payload['iss'], text) ??
    check('sub', payload['sub'], text) ??
    check('cmd', payload['cmd'], command) ??
    check('args', payload['args'], object) ??
    check('dr_chain', payload['dr_chain'], texts) ??
    check('iat', payload['iat'], time) ??
    check('jti', payload['jti'], text) ??
    check('tool_server', payload['tool_server'], nonEmptyText) ??
    findJtiDefect(payload, 'inv:');
  // The checks above prove that the payload has this type.
  return defect ? { defect } : { claims: payload as unknown as InvocationClaims };
}

/**
 * Whether a value is a command path: a leading `/`, and no segment that is empty, `.` or `..`. Linear in its length; a
 * regular expression would overflow the stack over a path of millions of segments.
 *
 * @example isCommandPath('/mcp/tools/call'); // true
 * @example isCommandPath('/mcp/'); // false
 */
export function isCommandPath(value: unknown): value is string {
  if (typeof value !== 'string' || !value.startsWith('/')) return false;
  for (let start = 1; ;) {
    const slash = value.indexOf('/', start);
    const end = slash === -1 ? value.length : slash;
    const length = end - start;
    if (length === 0 || (length <= 2 && DOTS.has(value.slice(start, end)))) return false;
    if (slash === -1) return true;
    start = slash + 1;
  }
}

/**
 * Whether a command is another one or a sub-path of it, by whole segments.
 *
 * @example coversCommand('/a/b', '/a/b/c'); // true
 * @example coversCommand('/a/b', '/a/bc'); // false
 */
export function coversCommand(parent: string, child: string): boolean {
  return child === parent || (child.startsWith(parent) && child[parent.length] === '/');
}

const DOTS: ReadonlySet<string> = new Set(['.', '..']);

// Claims are read by literal names, which JavaScript engines read faster than names in variables. No object inherits
// a member with one of these names, and `parseStrictJson` protects against members that were added to the prototype.

function check(claim: string, found: JsonValue | undefined, { expected, test }: Rule): ClaimDefect | null {
  return test(found) ? null : { kind: 'claim', claim, found, expected };
}

function findTypeDefect(payload: JsonObject, type: string): ClaimDefect | null {
  const found = payload['drs_type'];
  if (found !== type) return { kind: 'type', claim: 'drs_type', found, expected: JSON.stringify(type) };
  const version = payload['drs_v'];
  if (version === DRS_VERSION) return null;
  return { kind: 'version', claim: 'drs_v', found: version, expected: JSON.stringify(DRS_VERSION) };
}

function readPolicyClaim(payload: JsonObject): { limits: PolicyLimit[]; defect: ClaimDefect | null } {
  const policy = payload['policy'];
  const fail = (claim: string, found: JsonValue | undefined, expected: string) => {
    return { limits: [], defect: { kind: 'claim', claim, found, expected } as const };
  };
  if (!isJsonObject(policy)) return fail('policy', policy, 'an object');
  const { limits, defect } = readPolicy(policy);
  return defect === undefined
    ? { limits, defect: null }
    : fail(`policy.${defect.name}`, defect.found, defect.expected);
}

function findRootDefect(payload: JsonObject): ClaimDefect | null {
  // A first receipt without a root type is usually not a root, but a receipt in the wrong order. Block B reports that.
  const type = payload['drs_root_type'] ?? null;
  if (type !== null && typeof type !== 'string') {
    return { kind: 'claim', claim: 'drs_root_type', found: type, expected: 'a string such as "human"' };
  }
  const consent = payload['drs_consent'] ?? null;
  if (consent === null) return null;
  if (!isJsonObject(consent))
    return { kind: 'claim', claim: 'drs_consent', found: consent, expected: 'an object' };
  for (const name of CONSENT_MEMBERS) {
    const found = consent[name];
    if (typeof found !== 'string') {
      return { kind: 'claim', claim: `drs_consent.${name}`, found, expected: 'a string' };
    }
  }
  return null;
}

function findExpiryDefect(payload: JsonObject, humanRoot: boolean): ClaimDefect | null {
  const found = payload['exp'];
  const standing = found === undefined || found === null;
  if (standing ? !humanRoot : isCount(found)) return null;
  return {
    kind: 'claim',
    claim: 'exp',
    found,
    expected: humanRoot ? `${time.expected}, under a human root` : time.expected,
  };
}

function findJtiDefect(payload: JsonObject, prefix: string): ClaimDefect | null {
  const found = payload['jti'] as string;
  if (found.startsWith(prefix) && found.length > prefix.length) return null;
  return { kind: 'jti', claim: 'jti', found, expected: `"${prefix}" followed by at least one character` };
}

function findMissingConsent(payload: JsonObject): ClaimDefect | null {
  if (payload['drs_root_type'] !== 'human' || (payload['drs_consent'] ?? null) !== null) return null;
  return {
    kind: 'consent',
    claim: 'drs_consent',
    found: payload['drs_consent'],
    expected: 'the consent record of a human root',
  };
}

function findOddConsent(payload: JsonObject): ClaimDefect | null {
  const consent = payload['drs_consent'] ?? null;
  const defect = consent === null ? null : findConsentDefect(consent as unknown as Consent);
  if (defect === null) return null;
  const { member, expected } = defect;
  return { kind: 'consent form', claim: `drs_consent.${member}`, found: defect.found, expected };
}
