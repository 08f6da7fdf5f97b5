import { decodeBase64url } from '#platform';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { show } from '../../verify/codes.js';
import { malformed, StatusListError } from './status-list-error.js';

/** Maximum size of a list in bytes, as sent. Parsing this much takes the main thread up to 30 ms. */
export const MAX_WIRE_BYTES = 1024 * 1024;

/** Maximum size of the bits in bytes, unpacked. Putting this much together takes the main thread up to 20 ms. */
export const MAX_UNPACKED_BYTES = 16 * 1024 * 1024;

/** The same for a list of a root, of which a verifier may hold many. */
export const MAX_ROOT_LIST_BYTES = 4 * 1024 * 1024;

/** When a list is valid, in Unix milliseconds; `-Infinity` and `Infinity` if it has no beginning or end. */
export interface Validity {
  readonly validFromMs: number;
  /** The first moment at which it is no longer valid. */
  readonly validUntilMs: number;
}

/** The relevant members of a status list credential. */
export interface StatusListCredential extends Validity {
  /** `issuer`, or its `id`. */
  readonly issuer: string;
  /** What it says that it is: `id`, that of its subject, and the `sub` of a JWT. */
  readonly names: { readonly [member in 'id' | 'subject' | 'sub']?: JsonValue | undefined };
  /** How long it may be kept, in milliseconds; `Infinity` if it does not say. */
  readonly ttlMs: number;
  /** The bits as GZIP data, which nobody has unpacked. */
  readonly packed: Uint8Array;
}

// xsd:dateTime with a time zone. Date.parse alone also accepts many other formats.
const DATE_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

/**
 * Reads a status list credential: its shape, its purpose, its validity period. Does not check who made it.
 *
 * @throws {@link StatusListError} `malformed` or `wrong_purpose`
 * @see W3C Bitstring Status List §2.2, Verifiable Credentials 2.0 §4.9
 */
export function readCredential(credential: JsonObject): StatusListCredential {
  if (!names(credential['type'], 'BitstringStatusListCredential'))
    throw malformed(`its type is ${show(credential['type'])}, expected BitstringStatusListCredential`);
  const subject = credential['credentialSubject'];
  if (!isJsonObject(subject))
    throw malformed(`its credentialSubject is ${show(subject)}, expected one object`);
  if (!names(subject['type'], 'BitstringStatusList'))
    throw malformed(`its credentialSubject.type is ${show(subject['type'])}, expected BitstringStatusList`);
  if (!names(subject['statusPurpose'], 'revocation'))
    throw new StatusListError(
      'wrong_purpose',
      `its statusPurpose is ${show(subject['statusPurpose'])}, expected "revocation"`,
    );
  const size = subject['statusSize'] ?? 1;
  if (size !== 1)
    throw new StatusListError('wrong_purpose', `its statusSize is ${show(size)}, expected 1 bit an entry`);
  const ttlMs = subject['ttl'] ?? Infinity;
  if (typeof ttlMs !== 'number' || ttlMs < 0)
    throw malformed(`its credentialSubject.ttl is ${show(ttlMs)}, expected milliseconds`);
  const { issuer: given } = credential;
  const issuer = isJsonObject(given) ? given['id'] : given;
  if (typeof issuer !== 'string') throw malformed(`its issuer is ${show(given)}, expected a URL`);
  const { encodedList } = subject;
  if (typeof encodedList !== 'string')
    throw malformed(`its credentialSubject.encodedList is ${show(encodedList)}, expected a string`);
  // Multibase.
  const packed = encodedList.startsWith('u') ? decodeBase64url(encodedList.slice(1)) : null;
  if (packed === null) throw malformed('its encodedList is not "u" and base64url without padding');
  return {
    issuer,
    names: { id: credential['id'], subject: subject['id'] },
    ttlMs,
    packed,
    validFromMs: dateTime(credential, 'validFrom', -Infinity),
    validUntilMs: dateTime(credential, 'validUntil', Infinity),
  };
}

/**
 * Applies the registered claims of a JWT to the credential in it: its validity period can only become shorter.
 *
 * @throws {@link StatusListError} `malformed` if `nbf` or `exp` is not a number, `untrusted` if `iss` is not the issuer
 * @see RFC 7519 §4.1, W3C vc-jose-cose §3.1.3
 */
export function narrowByClaims(credential: StatusListCredential, claims: JsonObject): StatusListCredential {
  if (claims['iss'] !== undefined && claims['iss'] !== credential.issuer)
    throw new StatusListError(
      'untrusted',
      `its iss claim is ${show(claims['iss'])}, expected its issuer ${show(credential.issuer)}`,
    );
  return {
    ...credential,
    names: { ...credential.names, sub: claims['sub'] },
    validFromMs: Math.max(credential.validFromMs, numericDate(claims, 'nbf', -Infinity)),
    validUntilMs: Math.min(credential.validUntilMs, numericDate(claims, 'exp', Infinity)),
  };
}

/** Whether a value is this name, or an array with it. */
function names(value: JsonValue | undefined, name: string): boolean {
  return Array.isArray(value) ? value.includes(name) : value === name;
}

function dateTime(credential: JsonObject, member: string, absent: number): number {
  const time = parseDateTime(credential[member], absent);
  if (Number.isNaN(time))
    throw malformed(`its ${member} is ${show(credential[member])}, expected an ISO 8601 time with a zone`);
  return time;
}

/** An xsd:dateTime in Unix milliseconds; `NaN` if it is none, or has no zone. */
export function parseDateTime(value: JsonValue | undefined, absent: number): number {
  if (value === undefined) return absent;
  return typeof value === 'string' && DATE_TIME.test(value) ? Date.parse(value) : Number.NaN;
}

function numericDate(claims: JsonObject, claim: string, absent: number): number {
  const value = claims[claim];
  if (value === undefined) return absent;
  if (typeof value !== 'number')
    throw malformed(`its ${claim} claim is ${show(value)}, expected Unix seconds`);
  return value * 1000;
}
