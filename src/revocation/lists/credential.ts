import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { show } from '../../verify/codes.js';
import { StatusListError } from './status-list-error.js';

/** The relevant members of a status list credential. Times are Unix milliseconds; `Infinity` means no end. */
export interface StatusListCredential {
  /** `issuer`, or its `id`. */
  readonly issuer: string;
  readonly encodedList: string;
  readonly validFromMs: number;
  /** The first moment at which it is no longer valid. */
  readonly validUntilMs: number;
}

const CREDENTIAL_TYPES = ['BitstringStatusListCredential', 'StatusList2021Credential'];
const SUBJECT_TYPES = ['BitstringStatusList', 'StatusList2021'];
// xsd:dateTime with a time zone. Date.parse alone also accepts many other formats.
const DATE_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

/**
 * Reads a status list credential: its shape, its purpose, its validity period. Does not check who made it.
 *
 * @param credential a `BitstringStatusListCredential`, or the older `StatusList2021Credential`
 * @throws {@link StatusListError} `malformed` or `wrong_purpose`
 * @see W3C Bitstring Status List §2.2, Verifiable Credentials 2.0 §4.9 (1.1: §4.6)
 */
export function readCredential(credential: JsonObject): StatusListCredential {
  if (!namesOneOf(credential['type'], CREDENTIAL_TYPES)) {
    throw malformed(`its type is ${show(credential['type'])}, expected ${CREDENTIAL_TYPES.join(' or ')}`);
  }
  const subject = credential['credentialSubject'];
  if (!isJsonObject(subject)) {
    throw malformed(`its credentialSubject is ${show(subject)}, expected one object`);
  }
  if (!namesOneOf(subject['type'], SUBJECT_TYPES)) {
    throw malformed(
      `its credentialSubject.type is ${show(subject['type'])}, expected ${SUBJECT_TYPES.join(' or ')}`,
    );
  }
  if (!namesOneOf(subject['statusPurpose'], ['revocation'])) {
    throw new StatusListError(
      'wrong_purpose',
      `its statusPurpose is ${show(subject['statusPurpose'])}, expected "revocation"`,
    );
  }
  const size = subject['statusSize'] ?? 1;
  if (size !== 1) {
    throw new StatusListError('wrong_purpose', `its statusSize is ${show(size)}, expected 1 bit an entry`);
  }
  const encodedList = subject['encodedList'];
  if (typeof encodedList !== 'string') {
    throw malformed(`its credentialSubject.encodedList is ${show(encodedList)}, expected a string`);
  }
  return {
    issuer: readIssuer(credential['issuer']),
    encodedList,
    validFromMs: Math.max(
      dateTime(credential, 'validFrom', -Infinity),
      dateTime(credential, 'issuanceDate', -Infinity),
    ),
    validUntilMs: Math.min(
      dateTime(credential, 'validUntil', Infinity),
      dateTime(credential, 'expirationDate', Infinity),
    ),
  };
}

/**
 * Applies the registered claims of a JWT to the credential in it: its validity period can only become shorter.
 *
 * @throws {@link StatusListError} `malformed` if `nbf` or `exp` is not a number, `untrusted` if `iss` is not the issuer
 * @see RFC 7519 §4.1, W3C vc-jose-cose §3.1.3
 */
export function narrowByClaims(credential: StatusListCredential, claims: JsonObject): StatusListCredential {
  if (claims['iss'] !== undefined && claims['iss'] !== credential.issuer) {
    throw new StatusListError(
      'untrusted',
      `its iss claim is ${show(claims['iss'])}, expected its issuer ${show(credential.issuer)}`,
    );
  }
  return {
    ...credential,
    validFromMs: Math.max(credential.validFromMs, numericDate(claims, 'nbf', -Infinity)),
    validUntilMs: Math.min(credential.validUntilMs, numericDate(claims, 'exp', Infinity)),
  };
}

function readIssuer(issuer: JsonValue | undefined): string {
  const id = isJsonObject(issuer) ? issuer['id'] : issuer;
  if (typeof id !== 'string') throw malformed(`its issuer is ${show(issuer)}, expected a URL`);
  return id;
}

/** Whether a value is one of the names, or an array with one of them in it. */
function namesOneOf(value: JsonValue | undefined, names: readonly string[]): boolean {
  return (Array.isArray(value) ? value : [value]).some((item) => names.includes(item as string));
}

function dateTime(credential: JsonObject, member: string, absent: number): number {
  const value = credential[member];
  if (value === undefined) return absent;
  const time = typeof value === 'string' && DATE_TIME.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(time))
    throw malformed(`its ${member} is ${show(value)}, expected an ISO 8601 time with a zone`);
  return time;
}

function numericDate(claims: JsonObject, claim: string, absent: number): number {
  const value = claims[claim];
  if (value === undefined) return absent;
  if (typeof value !== 'number')
    throw malformed(`its ${claim} claim is ${show(value)}, expected Unix seconds`);
  return value * 1000;
}

const malformed = (message: string) => new StatusListError('malformed', message);
