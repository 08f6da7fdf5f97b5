import { createHash } from 'node:crypto';
import { decodeBase58 } from '../../protocol/did-key.js';
import { toJcs } from '../../protocol/jcs.js';
import { equalsByJcs, isJsonObject, parseStrictJson } from '../../protocol/json.js';
import type { JsonObject, JsonValue } from '../../protocol/json.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import { DEFAULT_KEYS, type KeyResolver } from '../../protocol/key-resolver.js';
import { decodeUtf8 } from '#platform';
import { verifyEd25519 } from '../../signatures/in-thread.js';
import { assertSigned, resolveIssuer, untrusted, type ListIssuer } from './list-issuer.js';
import { narrowByClaims, parseDateTime, readCredential } from './credential.js';
import type { StatusListCredential, Validity } from './credential.js';
import { unpackBits, type ListEntries } from './bitstring.js';
import { malformed, StatusListError } from './status-list-error.js';
import { show } from '../../verify/codes.js';
import { CLOCKS } from '../../verify/parts.js';
import { printableUrl } from '../printable-url.js';

/** A status list, unpacked and checked. */
export interface StatusList extends Validity, ListEntries {
  /** How long it may be kept, in milliseconds; `Infinity` if it does not say. */
  readonly ttlMs: number;
}

/** What a list must be: a credential, which says so itself, or bits, of which any bytes could be some. */
export type ListForm = 'credential' | 'raw';

export interface ReadOptions {
  readonly form: ListForm;
  /** The name that a credential must have, a URL as a rule; `any` for a mirror, or a list without a name. */
  readonly id: string;
  /** The DID that must have signed it, and resolves as of now. Raw bits are never signed. */
  readonly issuer?: string | undefined;
  readonly keys?: KeyResolver | undefined;
  /** The current time in Unix milliseconds. It must be in the list's validity period. */
  readonly nowMs: number;
  /** Seconds by which the clock of whoever signs may be ahead; 30 by default. */
  readonly clockSkewSecs?: number | undefined;
  /** Maximum size of the bits; that of the operator's list by default. */
  readonly maxBytes?: number | undefined;
  /** What corrects `id`, for a message. */
  readonly nameFrom?: string | undefined;
}

// `{` and any character after it, in base64url.
const JWT_START = /^e[w-z0-9_-]/;
// Object stores send the second one.
const RAW_TYPES = ['application/octet-stream', 'binary/octet-stream'];

/**
 * Reads a status list. It takes the calling thread up to 50 ms.
 *
 * Signatures are checked only if an issuer is pinned: otherwise there is no trusted key to check them against.
 *
 * @param body at most `MAX_WIRE_BYTES`
 * @param contentType the `Content-Type`. A credential may have any: object stores call every file `application/octet-stream`
 * @throws {@link StatusListError} if it is not a list, or cannot be trusted
 * @see W3C Bitstring Status List §3.2
 */
export async function readStatusList(
  body: Buffer,
  contentType: string,
  options: ReadOptions,
): Promise<StatusList> {
  const {
    form,
    id,
    issuer: did,
    keys = DEFAULT_KEYS,
    nowMs,
    nameFrom = 'STATUS_LIST_ID; "any" is for mirrors',
  } = options;
  const { clockSkewSecs = CLOCKS.clockSkewSecs } = options;
  const skewMs = clockSkewSecs * 1000;
  const issuer = did === undefined ? undefined : resolveIssuer(did, keys);
  const start = startOf(body);
  if (form === 'raw') {
    if (issuer !== undefined) throw unsigned('it is a raw bitstring', issuer);
    assertRaw(start, contentType);
    return toStatusList(body, { validFromMs: -Infinity, validUntilMs: Infinity, ttlMs: Infinity });
  }
  const isJwt = JWT_START.test(start);
  if (!isJwt && !start.startsWith('{'))
    throw malformed(
      `it begins with ${JSON.stringify(start)}, expected a credential: a JWT ("ey…") or a JSON object ("{…"); raw bits are read only with STATUS_LIST_FORM=raw`,
    );
  const credential = isJwt ? readJwt(body, issuer) : readJson(body, issuer, nowMs, skewMs);
  if (issuer !== undefined && credential.issuer !== issuer.did)
    throw untrusted(
      `its issuer is ${JSON.stringify(credential.issuer.slice(0, 80))}, expected ${issuer.did}`,
    );
  if (id !== 'any') assertNamed(id, credential, nameFrom);
  assertValid(credential, nowMs, skewMs);
  return toStatusList(await unpackBits(credential.packed, options.maxBytes), credential);
}

/** @throws {@link StatusListError} `out_of_validity` */
export function assertValid({ validFromMs, validUntilMs }: Validity, nowMs: number, skewMs: number): void {
  if (nowMs >= validFromMs - skewMs && nowMs < validUntilMs) return;
  const found =
    nowMs < validFromMs
      ? `it becomes valid at ${isoTime(validFromMs)}`
      : `it was valid until ${isoTime(validUntilMs)}`;
  throw new StatusListError('out_of_validity', `${found}; the clock here says ${isoTime(nowMs)}`);
}

/** Refuses another list, also of the same issuer: it says of other receipts that they are not revoked. */
function assertNamed(
  expected: string,
  { names: { id, subject, sub } }: StatusListCredential,
  nameFrom: string,
): void {
  // A JWT may name the subject of its credential there. See W3C vc-jose-cose §3.1.3.
  const own = sub === undefined || sub === subject ? [id] : [id ?? sub, sub];
  const other = own.findIndex((name) => typeof name !== 'string' || urlOf(name) !== urlOf(expected));
  if (other === -1) return;
  throw untrusted(
    `its ${other === 0 ? 'id' : 'sub claim'} is ${show(own[other])}, expected ${show(printableUrl(urlOf(expected)))}, ` +
      `the name of the list: correct ${nameFrom}`,
  );
}

/** A name as lists are compared by it: without the credentials with which one is fetched. */
function urlOf(name: string): string {
  if (!URL.canParse(name)) return name;
  const url = new URL(name);
  url.username = url.password = '';
  return url.href;
}

/** What a body begins with, behind a byte order mark and white space. Each character is a byte. */
function startOf(body: Buffer): string {
  const text = body.toString('latin1');
  return (text.startsWith('\xef\xbb\xbf') ? text.slice(3) : text).trimStart().slice(0, 16);
}

/** Refuses what is probably not raw bits: an error page, too, could be read as bits in which little is revoked. */
function assertRaw(start: string, contentType: string): void {
  if (JWT_START.test(start) || /^(?:[[{<]|\x1f\x8b)/.test(start))
    throw malformed(
      `it begins with ${JSON.stringify(start)} like a JWT, JSON, a web page or GZIP data, expected raw bits that do not; unset STATUS_LIST_FORM for a credential`,
    );
  if (!RAW_TYPES.includes(contentType.replace(/;.*/s, '').trim().toLowerCase()))
    throw new StatusListError(
      'content_type',
      `its Content-Type is ${JSON.stringify(contentType.slice(0, 80))}, expected ${RAW_TYPES.join(' or ')} for raw bits`,
    );
}

function readJson(body: Buffer, issuer: ListIssuer | undefined, nowMs: number, skewMs: number) {
  const text = decodeUtf8(body);
  if (text === null) throw malformed('it is not UTF-8');
  const { value: document, defect } = parseStrictJson(text);
  if (defect) throw malformed(`it is not strict JSON: ${defect.message}`);
  if (!isJsonObject(document)) throw malformed('it is not a JSON object');
  if (issuer !== undefined) assertProofBy(issuer, document, nowMs, skewMs);
  return readCredential(document);
}

function readJwt(body: Buffer, issuer: ListIssuer | undefined): StatusListCredential {
  // latin1 maps every byte to one character, so the signed bytes are exactly the parsed ones. A JWT is ASCII anyway.
  const text = body.toString('latin1').trim();
  const jwt = parseCompactJwt(text);
  if (jwt.defect !== undefined) throw malformed(`it is not a JWT: ${jwt.defect}`);
  assertSigned(text, jwt, issuer);
  return narrowByClaims(readCredential(jwt.payload), jwt.payload);
}

/**
 * Verifies the `eddsa-jcs-2022` proof of a document. If there are several, the first usable one by the pinned issuer decides.
 *
 * @see W3C vc-di-eddsa §3.3 (eddsa-jcs-2022)
 */
function assertProofBy(
  issuer: ListIssuer,
  { proof: proofs, ...unsecured }: JsonObject,
  nowMs: number,
  skewMs: number,
): void {
  const own = [proofs]
    .flat()
    .filter((one) => isJsonObject(one))
    .filter((one) => one['verificationMethod'] === issuer.keys.verificationMethodOf(issuer.did));
  if (own.length === 0) throw unsigned('it has no proof by that issuer', issuer);
  const defects = own.map((one) => findProofDefect(one, nowMs, skewMs));
  const usable = own[defects.indexOf(null)];
  const publicKey = Buffer.from(issuer.keys.publicKeyOf(issuer.did) ?? []);
  const defect = usable === undefined ? defects[0] : findForgery(unsecured, usable, publicKey);
  if (defect) throw untrusted(`${defect} (issuer ${issuer.did})`);
}

// 64 bytes have at most 88 base58 digits. Longer texts cannot be a signature.
const MAX_PROOF_VALUE_LENGTH = 1 + 88;

/** Why a proof vouches for nothing, whatever it was made over. @see W3C vc-data-integrity §2.1 */
function findProofDefect(proof: JsonObject, nowMs: number, skewMs: number): string | null {
  const { type, cryptosuite, proofPurpose, created, expires } = proof;
  if (proofPurpose !== 'assertionMethod') return 'the proofPurpose of its proof is not "assertionMethod"';
  if (type !== 'DataIntegrityProof' || cryptosuite !== 'eddsa-jcs-2022')
    return `its proof is ${name(type)} with ${name(cryptosuite)}, expected DataIntegrityProof with eddsa-jcs-2022`;
  // Both comparisons are false for NaN, which stands for what is no time.
  if (!(parseDateTime(created, -Infinity) <= nowMs + skewMs))
    return `its proof was created at ${show(created)}, expected a time with a zone that is not to come`;
  if (!(parseDateTime(expires, Infinity) > nowMs))
    return `its proof expires at ${show(expires)}, expected a time with a zone that is still to come`;
  return null;
}

function findForgery(unsecured: JsonObject, proof: JsonObject, publicKey: Buffer): string | null {
  const { proofValue: value, ...config } = proof;
  const { '@context': context } = config;
  const isShort = typeof value === 'string' && value.length <= MAX_PROOF_VALUE_LENGTH;
  const signature = isShort && value.startsWith('z') ? decodeBase58(value.slice(1)) : null;
  if (signature === null) return 'its proofValue is not "z" and base58btc';
  if (context !== undefined && !startsWith(unsecured['@context'], context))
    return "its @context does not begin with its proof's";
  const signed = context === undefined ? unsecured : { ...unsecured, '@context': context };
  const message = Buffer.concat([sha256(toJcs(config)), sha256(toJcs(signed))]);
  return verifyEd25519(signature, message, publicKey) ? null : 'its proof does not verify';
}

/** Whether a `@context` begins with another one. A text is a list of one (JSON-LD 1.1 §4.1). */
function startsWith(whole: JsonValue | undefined, start: JsonValue): boolean {
  if (whole === undefined) return false;
  const parts = [start].flat();
  return equalsByJcs([whole].flat().slice(0, parts.length), parts);
}

const sha256 = (text: string) => createHash('sha256').update(text).digest();
const name = (value: JsonValue | undefined) =>
  typeof value === 'string' ? JSON.stringify(value) : 'unnamed';

function toStatusList(
  bits: Buffer,
  { validFromMs, validUntilMs, ttlMs }: Omit<StatusList, keyof ListEntries>,
): StatusList {
  if (bits.length === 0) throw malformed('it has no entries');
  return { bits, tokenBits: null, validFromMs, validUntilMs, ttlMs };
}

const unsigned = (found: string, { did }: ListIssuer) =>
  untrusted(`${found}, expected a vc+jwt signature or an eddsa-jcs-2022 proof by ${did}`);

/** A time for a message: ISO 8601, or milliseconds if it is outside the range of dates. */
export const isoTime = (ms: number) => (Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`);
