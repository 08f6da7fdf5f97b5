import { CONSENT_MEMBERS, findConsentDefect, isText, type Consent, type StatedClaims } from './consent.js';
import { isJsonObject, type JsonObject, type JsonValue } from './json.js';
import { isCount, readPolicy, type Policy } from './policy.js';
import type { StatusClaims } from './status-claims.js';

/** The version that `drs_v` and `bundle_version` carry. */
export const DRS_VERSION = '4.0';

/** `drs_type` of a delegation receipt. */
export const RECEIPT_TYPE = 'delegation-receipt';

/** `drs_type` of an invocation receipt. */
export const INVOCATION_TYPE = 'invocation-receipt';

/**
 * The payload of a delegation receipt; times in Unix seconds. In an optional member, `null` means the same as absence:
 * issuers sign `null` for what their caller left undefined. Those of {@link StatedClaims} are read in the root only.
 */
export interface ReceiptClaims extends StatedClaims, StatusClaims {
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
export interface InvocationClaims extends StatedClaims {
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

/** The first thing wrong with a set of claims. `found` is the claimed value, `undefined` if it is missing. */
export interface ClaimDefect {
  readonly kind: 'type' | 'version' | 'claim' | 'jti' | 'consent' | 'consent form';
  readonly claim: string;
  readonly found: JsonValue | undefined;
  readonly expected: string;
}

interface Rule {
  readonly expected: string;
  readonly test: (value: JsonValue | undefined) => boolean;
}

const text: Rule = { expected: 'a string', test: (value) => typeof value === 'string' };
const time: Rule = { expected: 'an integer from 0 to 2^53-1 (Unix seconds)', test: isCount };
const command: Rule = { expected: 'a path such as "/mcp/tools/call"', test: isCommandPath };
const object: Rule = { expected: 'an object', test: isJsonObject };
const texts: Rule = {
  expected: 'an array of strings',
  test: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
};
const nonEmptyText: Rule = { expected: 'a non-empty string', test: (value) => isText(value, Infinity) };

const optional = (expected: string, { test }: Pick<Rule, 'test'>): Rule => {
  return { expected, test: (value) => (value ?? null) === null || test(value) };
};
const count = optional('an integer from 0 to 2^53-1', time);
const parentDigest = optional('a string, or null in the root', text);
const rootType = optional('a string such as "human"', text);
const consentRecord = optional(object.expected, object);

/**
 * Reads the claims of a delegation receipt. Unknown members are ignored.
 *
 * @param underHumanRoot whether the chain's root is `human`; has no meaning for the root
 * @returns the claims and the limits of their policy, or the first defect in the order of block A
 */
export function readReceiptClaims(payload: JsonObject, isRoot: boolean, underHumanRoot: boolean) {
  const { limits, defect: policyDefect } = readPolicyClaim(payload['policy']);
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
    check('drs_status_list_index', payload['drs_status_list_index'], count) ??
    policyDefect ??
    (isRoot ? findRootDefect(payload) : null) ??
    findExpiryDefect(payload, isRoot ? payload['drs_root_type'] === 'human' : underHumanRoot) ??
    findJtiDefect(payload, 'dr:') ??
    (isRoot ? checkConsent(payload) : null);
  // The checks above prove that the payload has this type.
  return defect ? { defect } : { claims: payload as unknown as ReceiptClaims, limits };
}

/**
 * Reads the claims of an invocation receipt. Unknown members are ignored.
 *
 * @returns the claims, or the first defect in the order of block A
 */
export function readInvocationClaims(payload: JsonObject) {
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
    const segment = value.slice(start, slash === -1 ? value.length : slash);
    if (segment === '' || segment === '.' || segment === '..') return false;
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

// No object inherits a member with the name of a claim: `parseStrictJson` leaves out what was added to the prototype.

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

function readPolicyClaim(policy: JsonValue | undefined) {
  if (!isJsonObject(policy)) return { limits: [], defect: check('policy', policy, object) };
  const { limits = [], defect } = readPolicy(policy);
  if (defect === undefined) return { limits, defect: null };
  const { name, found, expected } = defect;
  return { limits, defect: { kind: 'claim', claim: `policy.${name}`, found, expected } as const };
}

function findRootDefect(payload: JsonObject): ClaimDefect | null {
  // A first receipt without a root type is usually not a root, but a receipt in the wrong order. Block B reports that.
  const consent = payload['drs_consent'];
  const defect =
    check('drs_root_type', payload['drs_root_type'], rootType) ??
    check('drs_consent', consent, consentRecord);
  if (defect !== null || !isJsonObject(consent)) return defect;
  const member = CONSENT_MEMBERS.find((name) => typeof consent[name] !== 'string');
  return member === undefined ? null : check(`drs_consent.${member}`, consent[member], text);
}

function findExpiryDefect(payload: JsonObject, humanRoot: boolean): ClaimDefect | null {
  const found = payload['exp'];
  if ((found ?? null) === null ? !humanRoot : isCount(found)) return null;
  const expected = humanRoot ? `${time.expected}, under a human root` : time.expected;
  return { kind: 'claim', claim: 'exp', found, expected };
}

function findJtiDefect(payload: JsonObject, prefix: string): ClaimDefect | null {
  const found = payload['jti'] as string;
  if (found.startsWith(prefix) && found.length > prefix.length) return null;
  return { kind: 'jti', claim: 'jti', found, expected: `"${prefix}" followed by at least one character` };
}

/** The consent record of a human root is required. The form of any is checked, whose members are strings. */
function checkConsent(payload: JsonObject): ClaimDefect | null {
  const consent = payload['drs_consent'];
  if ((consent ?? null) === null) {
    if (payload['drs_root_type'] !== 'human') return null;
    const expected = 'the consent record of a human root';
    return { kind: 'consent', claim: 'drs_consent', found: consent, expected };
  }
  const defect = findConsentDefect(consent as unknown as Consent);
  if (defect === null) return null;
  const { member, found, expected } = defect;
  return { kind: 'consent form', claim: `drs_consent.${member}`, found, expected };
}
