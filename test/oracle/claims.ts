import { faithful, toDouble } from './jcs.js';
import { member, type Json, type JsonObject } from './json.js';
import { readJwt, type Jwt } from './jwt.js';
import { hasKnownMembersOfRightType } from './policy.js';

/** A delegation receipt that passed block A. */
export interface Receipt {
  readonly jwt: Jwt;
  readonly iss: string;
  readonly aud: string;
  readonly subject: string;
  readonly cmd: string;
  readonly jti: string;
  readonly policy: JsonObject;
  readonly nbf: number;
  readonly exp: number | undefined;
  readonly previous: string | undefined;
  readonly rootType: string | undefined;
  readonly consent: JsonObject | undefined;
  readonly stated: Stated;
  readonly statusIndex: number | undefined;
  /** What other claims about its status name. */
  readonly named: readonly (Named | 'unreadable')[];
}

/** An entry of a list: docs/spec/receipts.md, "Claims about status". */
export interface Named {
  /** The form of the list; `undefined` for either. */
  readonly form: 'w3c' | 'token' | undefined;
  readonly list: string;
  readonly index: number;
}

/** What a root or an invocation says of a call: docs/spec/receipts.md, "What a call belongs to". */
interface Stated {
  readonly session_id?: string;
  readonly correlation_id?: string;
  readonly regulatory?: object;
}

/** An invocation receipt that passed block A. */
export interface Invocation {
  readonly jwt: Jwt;
  readonly iss: string;
  readonly subject: string;
  readonly cmd: string;
  readonly jti: string;
  readonly args: JsonObject;
  readonly chain: readonly string[];
  readonly toolServer: string;
  readonly stated: Stated;
}

/** A string is an error code. */
type Read<T> = T | string;

const MAX_RECEIPT_NODES = 2_048;
const CONSENT = ['locale', 'method', 'policy_hash', 'session_id', 'timestamp'];

/** Block A for one receipt, in the order of the table in docs/spec/receipts.md. */
export function readReceipt(text: string, index: number, humanRoot: boolean | undefined): Read<Receipt> {
  const malformed = 'MALFORMED_RECEIPT';
  const jwt = readJwt(text, MAX_RECEIPT_NODES);
  if (jwt === undefined) return malformed;
  const claims = jwt.payload;
  if (stringOf(claims, 'drs_type') !== 'delegation-receipt') return 'WRONG_TYPE';
  if (stringOf(claims, 'drs_v') !== '4.0') return 'VERSION_MISMATCH';

  const iss = stringOf(claims, 'iss');
  const aud = stringOf(claims, 'aud');
  const subject = stringOf(claims, 'sub');
  const cmd = stringOf(claims, 'cmd');
  const jti = stringOf(claims, 'jti');
  if (iss === undefined || aud === undefined || subject === undefined || jti === undefined) return malformed;
  if (cmd === undefined || !isPath(cmd)) return malformed;

  const policy = member(claims, 'policy');
  if (policy?.kind !== 'object' || !hasKnownMembersOfRightType(policy)) return malformed;

  const nbf = timeOf(member(claims, 'nbf'));
  if (timeOf(member(claims, 'iat')) === undefined || nbf === undefined) return malformed;
  const exp = optional(claims, 'exp');
  const previous = optional(claims, 'prev_dr_hash');
  // Only the root has these claims. In other receipts they are unknown members, which the verifier ignores.
  const rootType = index === 0 ? optional(claims, 'drs_root_type') : undefined;
  const consent = index === 0 ? optional(claims, 'drs_consent') : undefined;
  const statusIndex = optional(claims, 'drs_status_list_index');
  if (exp !== undefined && timeOf(exp) === undefined) return malformed;
  if (statusIndex !== undefined && timeOf(statusIndex) === undefined) return malformed;
  if (previous !== undefined && previous.kind !== 'string') return malformed;
  if (rootType !== undefined && rootType.kind !== 'string') return malformed;
  if (consent !== undefined && !isConsent(consent)) return malformed;
  const stated = index === 0 ? readStated(claims) : {};

  const isHumanRoot = index === 0 && rootType?.value === 'human';
  // A delegation without an end is not allowed under a human root, at any depth.
  if (exp === undefined && (humanRoot ?? isHumanRoot)) return malformed;
  if (!/^dr:./su.test(jti)) return 'INVALID_JTI';
  if (isHumanRoot && consent === undefined) return 'MISSING_CONSENT';
  if (consent?.kind === 'object' && !hasConsentForms(consent)) return 'INVALID_CONSENT';

  return {
    jwt,
    iss,
    aud,
    subject,
    cmd,
    jti,
    policy,
    nbf,
    exp: timeOf(exp),
    previous: previous?.value,
    rootType: rootType?.value,
    consent: consent?.kind === 'object' ? consent : undefined,
    stated,
    statusIndex: timeOf(statusIndex),
    named: readNamed(claims),
  };
}

/** Block A for the invocation. */
export function readInvocation(text: string): Read<Invocation> {
  const malformed = 'MALFORMED_INVOCATION';
  const jwt = readJwt(text);
  if (jwt === undefined) return malformed;
  const claims = jwt.payload;
  if (stringOf(claims, 'drs_type') !== 'invocation-receipt') return 'WRONG_TYPE';
  if (stringOf(claims, 'drs_v') !== '4.0') return 'VERSION_MISMATCH';

  const iss = stringOf(claims, 'iss');
  const subject = stringOf(claims, 'sub');
  const cmd = stringOf(claims, 'cmd');
  const jti = stringOf(claims, 'jti');
  const toolServer = stringOf(claims, 'tool_server');
  if (iss === undefined || subject === undefined || jti === undefined) return malformed;
  if (toolServer === undefined || toolServer === '') return malformed;
  if (cmd === undefined || !isPath(cmd)) return malformed;
  if (timeOf(member(claims, 'iat')) === undefined) return malformed;
  const args = member(claims, 'args');
  if (args?.kind !== 'object' || faithful(args) === undefined) return malformed;
  const chain = member(claims, 'dr_chain');
  if (chain?.kind !== 'array') return malformed;
  const hashes = chain.items.map((item) => (item.kind === 'string' ? item.value : undefined));
  if (!hashes.every((hash) => hash !== undefined)) return malformed;
  const stated = readStated(claims);
  if (!/^inv:./su.test(jti)) return 'INVALID_JTI';
  return { jwt, iss, subject, cmd, jti, args, chain: hashes, toolServer, stated };
}

export function stringOf(object: JsonObject, name: string): string | undefined {
  const value = member(object, name);
  return value?.kind === 'string' ? value.value : undefined;
}

/** Reads an optional member. `null` means the same as absence. */
function optional(object: JsonObject, name: string): Json | undefined {
  const value = member(object, name);
  return value?.kind === 'null' ? undefined : value;
}

/** An integer from 0 to 2^53−1. */
function timeOf(value: Json | undefined): number | undefined {
  if (value?.kind !== 'number') return undefined;
  const number = toDouble(value.text);
  return Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

/** The entries that a receipt names. If one claim has another form, nobody reads any. */
function readNamed(claims: JsonObject): readonly (Named | 'unreadable')[] {
  const [status, credential, ofProtocol] = ['status', 'credentialStatus', 'drs_status'].map((name) =>
    optional(claims, name),
  );
  const entries = credential?.kind === 'array' ? credential.items : [credential];
  const found = [
    ...(status === undefined ? [] : [readStatus(status)]),
    ...(credential === undefined
      ? []
      : entries.length > 16 || entries.length < 1
        ? [undefined]
        : entries.map(readEntry)),
    ...(ofProtocol === undefined ? [] : [readNames(ofProtocol, undefined, 'list_url', 'index')]),
  ];
  return found.every((one) => one !== undefined) ? found : ['unreadable'];
}

function readNames(
  value: Json | undefined,
  form: Named['form'],
  listMember: string,
  indexMember: string,
): Named | undefined {
  if (value?.kind !== 'object') return undefined;
  const list = stringOf(value, listMember);
  const index = timeOf(member(value, indexMember));
  return list === undefined || index === undefined ? undefined : { form, list, index };
}

function readStatus(status: Json): Named | undefined {
  if (status.kind !== 'object' || status.members.length !== 1) return undefined;
  return readNames(member(status, 'status_list'), 'token', 'uri', 'idx');
}

function readEntry(entry: Json | undefined): Named | undefined {
  if (entry?.kind !== 'object') return undefined;
  const size = optional(entry, 'statusSize');
  if (size !== undefined && (size.kind !== 'number' || toDouble(size.text) !== 1)) return undefined;
  if (stringOf(entry, 'type') !== 'BitstringStatusListEntry') return undefined;
  if (stringOf(entry, 'statusPurpose') !== 'revocation') return undefined;
  const list = stringOf(entry, 'statusListCredential');
  const digits = stringOf(entry, 'statusListIndex') ?? '';
  const index = Number(digits);
  // Written as an integer is, and as no other number is.
  if (list === undefined || !Number.isSafeInteger(index) || index < 0 || String(index) !== digits)
    return undefined;
  return { form: 'w3c', list, index };
}

/** What a call belongs to, without what has another form. */
function readStated(claims: JsonObject): Stated {
  const regulatory = member(claims, 'drs_regulatory');
  const labelOf = (one: Json | undefined) => (one?.kind === 'string' && isLabel(one) ? one.value : undefined);
  const said = (rules: JsonObject) => {
    const frameworks = member(rules, 'frameworks');
    const names = frameworks?.kind === 'array' ? frameworks.items.map(labelOf) : [undefined];
    return present({
      frameworks: names.length <= 16 && !names.includes(undefined) ? names : undefined,
      risk_level: labelOf(member(rules, 'risk_level')),
      retention_days: timeOf(member(rules, 'retention_days')),
    });
  };
  return present({
    session_id: labelOf(member(claims, 'session_id')),
    correlation_id: labelOf(member(claims, 'correlation_id')),
    regulatory: regulatory?.kind === 'object' ? said(regulatory) : undefined,
  });
}

/** Without members that are `undefined`. */
function present<T extends object>(members: T) {
  const all = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(all) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function isLabel(value: Json): boolean {
  return value.kind === 'string' && value.value.length >= 1 && value.value.length <= 256;
}

/** The members of a consent record, as a context has them. */
export function recordOf(consent: JsonObject): object {
  return Object.fromEntries(CONSENT.map((name) => [name, stringOf(consent, name)]));
}

function isConsent(value: Json): boolean {
  return value.kind === 'object' && CONSENT.every((name) => stringOf(value, name) !== undefined);
}

/** The forms of docs/spec/receipts.md, "Consent". */
function hasConsentForms(consent: JsonObject): boolean {
  const [locale = '', method = '', hash = '', session = '', timestamp = ''] = CONSENT.map((name) =>
    stringOf(consent, name),
  );
  const isText = (text: string) => text.length >= 1 && text.length <= 1024;
  const [algorithm, digits = '', ...rest] = hash.split(':');
  const isDigest =
    algorithm === 'sha256' &&
    rest.length === 0 &&
    digits.length === 64 &&
    Buffer.from(digits, 'hex').length === 32;
  return isLanguageTag(locale) && isText(method) && isDigest && isText(session) && isUtcTime(timestamp);
}

/** `langtag` or `privateuse` of RFC 5646, subtag by subtag. */
function isLanguageTag(tag: string): boolean {
  if (tag.length > 100) return false;
  const subtags = tag.toLowerCase().split('-');
  const take = (form: RegExp) => (form.test(subtags[0] ?? '') ? subtags.shift() : undefined);
  const takeAll = (form: RegExp, most = Infinity) => {
    let count = 0;
    while (count < most && take(form) !== undefined) count++;
    return count;
  };
  if (take(/^x$/) !== undefined) return takeAll(/^[a-z0-9]{1,8}$/) > 0 && subtags.length === 0;
  const language = take(/^[a-z]{2,8}$/);
  if (language === undefined) return false;
  if (language.length <= 3) takeAll(/^[a-z]{3}$/, 3);
  take(/^[a-z]{4}$/);
  take(/^([a-z]{2}|[0-9]{3})$/);
  takeAll(/^([a-z0-9]{5,8}|[0-9][a-z0-9]{3})$/);
  while (take(/^[a-wyz0-9]$/) !== undefined) if (takeAll(/^[a-z0-9]{2,8}$/) === 0) return false;
  if (take(/^x$/) !== undefined && takeAll(/^[a-z0-9]{1,8}$/) === 0) return false;
  return subtags.length === 0;
}

/** An RFC 3339 time in UTC, on a day and at a second that exist. */
function isUtcTime(text: string): boolean {
  const parts = /^([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?(Z|\+00:00)$/.exec(
    text,
  );
  const [, day = '', time = ''] = parts ?? [];
  if (day === '') return false;
  const read = new Date(`${day}T${time === '23:59:60' ? '23:59:59' : time}Z`);
  if (Number.isNaN(read.getTime())) return false;
  // JavaScript takes the 30th of February for the 2nd of March, and 24:00:00 for the next day.
  return read.toISOString().startsWith(day);
}

/** Whether a command begins with `/` and no segment is empty, `.` or `..`. */
function isPath(cmd: string): boolean {
  const [before, ...segments] = cmd.split('/');
  return (
    before === '' && segments.length > 0 && segments.every((segment) => !['', '.', '..'].includes(segment))
  );
}
