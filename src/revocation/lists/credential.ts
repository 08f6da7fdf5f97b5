import { gunzip, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import { decodeBase64url, encodeBase64url } from '#platform';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { show } from '../../verify/codes.js';
import { StatusListError } from './status-list-error.js';

/** Maximum size of a list in bytes, as sent. Parsing this much takes the main thread up to 30 ms. */
export const MAX_WIRE_BYTES = 1024 * 1024;

/** Maximum size of the bits in bytes, unpacked. Putting this much together takes the main thread up to 20 ms. */
export const MAX_UNPACKED_BYTES = 16 * 1024 * 1024;

/** The relevant members of a status list credential. Times are Unix milliseconds; `Infinity` means no end. */
export interface StatusListCredential {
  /** `issuer`, or its `id`. */
  readonly issuer: string;
  /** The bits as GZIP data, which nobody has unpacked. */
  readonly packed: Uint8Array;
  readonly validFromMs: number;
  /** The first moment at which it is no longer valid. */
  readonly validUntilMs: number;
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
  if (!names(credential['type'], 'BitstringStatusListCredential')) {
    throw malformed(`its type is ${show(credential['type'])}, expected BitstringStatusListCredential`);
  }
  const subject = credential['credentialSubject'];
  if (!isJsonObject(subject)) {
    throw malformed(`its credentialSubject is ${show(subject)}, expected one object`);
  }
  if (!names(subject['type'], 'BitstringStatusList')) {
    throw malformed(`its credentialSubject.type is ${show(subject['type'])}, expected BitstringStatusList`);
  }
  if (!names(subject['statusPurpose'], 'revocation')) {
    throw new StatusListError(
      'wrong_purpose',
      `its statusPurpose is ${show(subject['statusPurpose'])}, expected "revocation"`,
    );
  }
  const size = subject['statusSize'] ?? 1;
  if (size !== 1) {
    throw new StatusListError('wrong_purpose', `its statusSize is ${show(size)}, expected 1 bit an entry`);
  }
  return {
    issuer: readIssuer(credential['issuer']),
    packed: readEncodedList(subject['encodedList']),
    validFromMs: dateTime(credential, 'validFrom', -Infinity),
    validUntilMs: dateTime(credential, 'validUntil', Infinity),
  };
}

/** Multibase: `u` and base64url without padding. */
function readEncodedList(encodedList: JsonValue | undefined): Uint8Array {
  if (typeof encodedList !== 'string')
    throw malformed(`its credentialSubject.encodedList is ${show(encodedList)}, expected a string`);
  const packed = encodedList.startsWith('u') ? decodeBase64url(encodedList.slice(1)) : null;
  if (packed === null) throw malformed('its encodedList is not "u" and base64url without padding');
  return packed;
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

/** Whether a value is this name, or an array with it. */
function names(value: JsonValue | undefined, name: string): boolean {
  return Array.isArray(value) ? value.includes(name) : value === name;
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

const gunzipAsync = promisify(gunzip);
const gzipAsync = promisify(gzip);

/**
 * Whether the bit of an entry is set. Bit 0 is the most significant bit of byte 0.
 *
 * @param index less than `8 * bits.length`
 * @see W3C Bitstring Status List §3.2
 * @example isBitSet(Buffer.from([0b0100_0000]), 1); // true
 */
export function isBitSet(bits: Uint8Array, index: number): boolean {
  return ((bits[index >>> 3] ?? 0) & (0x80 >>> (index & 7))) !== 0;
}

/**
 * Unpacks the bits of a status list, on a thread of libuv.
 *
 * @param packed GZIP data
 * @throws {@link StatusListError} `malformed`; `too_large` as soon as there are more than {@link MAX_UNPACKED_BYTES}
 * @see W3C Bitstring Status List §3.3, RFC 1952
 */
export async function unpackBits(packed: Uint8Array): Promise<Buffer> {
  try {
    return await gunzipAsync(packed, { maxOutputLength: MAX_UNPACKED_BYTES, chunkSize: 256 * 1024 });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw code === 'ERR_BUFFER_TOO_LARGE'
      ? new StatusListError(
          'too_large',
          `its encodedList unpacks to more than ${MAX_UNPACKED_BYTES} bytes: make a list with at most ${MAX_UNPACKED_BYTES * 8} entries`,
        )
      : new StatusListError('malformed', `its encodedList is not whole GZIP data: ${message}`);
  }
}

/**
 * Packs a bitstring as an `encodedList`: `u`, base64url, GZIP.
 *
 * @see W3C Bitstring Status List §3.3
 * @example await packBits(Buffer.alloc(16_384)); // 'uH4sI…'
 */
export async function packBits(bits: Uint8Array): Promise<string> {
  return `u${encodeBase64url(await gzipAsync(bits))}`;
}

const malformed = (message: string) => new StatusListError('malformed', message);
