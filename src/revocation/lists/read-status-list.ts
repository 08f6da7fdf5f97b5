import { isJsonObject, MAX_JSON_NODES, parseStrictJson, type JsonObject } from '../../protocol/json.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import type { KeyResolver } from '../../protocol/key-resolver.js';
import { decodeUtf8 } from '#platform';
import { verifyEd25519 } from '../../signatures/in-thread.js';
import { unpackBits } from './bitstring.js';
import { narrowByClaims, readCredential, type StatusListCredential } from './credential.js';
import { findProofDefect } from './data-integrity.js';
import { StatusListError } from './status-list-error.js';

/** A status list, unpacked and checked. */
export interface StatusList {
  readonly bits: Buffer;
  /** The number of bits. */
  readonly entries: number;
  /** Unix milliseconds; `-Infinity` if it has no beginning. */
  readonly validFromMs: number;
  /** Unix milliseconds; `Infinity` if it has no end. */
  readonly validUntilMs: number;
}

/** The issuer that must have signed a list. */
interface ListIssuer {
  readonly did: string;
  readonly publicKey: Uint8Array;
  /** The name of the key in a Data Integrity proof. */
  readonly verificationMethod: string;
}

/**
 * Resolves the key of a pinned issuer, as of now.
 *
 * @throws {@link StatusListError} if the DID does not resolve
 */
export function resolveIssuer(did: string, keys: KeyResolver): ListIssuer {
  const publicKey = keys.publicKeyOf(did);
  if (publicKey === null)
    throw new StatusListError('untrusted', `the pinned issuer ${did} is not ${keys.expected}`);
  return { did, publicKey, verificationMethod: keys.verificationMethodOf(did) };
}

/** Options for reading a list. */
export interface ReadOptions {
  readonly issuer?: ListIssuer | undefined;
  /** The current time in Unix milliseconds. It must be in the list's validity period. */
  readonly nowMs: number;
  /** Maximum size in bytes after unpacking; default {@link MAX_UNPACKED_BYTES}. */
  readonly maxUnpackedBytes?: number | undefined;
}

const JSON_TYPES = ['application/vc', 'application/json', 'application/ld+json', 'application/vc+ld+json'];
const JWT_TYPES = ['application/vc+jwt', 'application/jwt', 'application/vc+ld+json+jwt'];
// Object stores send the second one.
const RAW_TYPES = ['application/octet-stream', 'binary/octet-stream'];

/** The media type in a `Content-Type`. It alone decides in which form the list is read. */
function mediaTypeOf(contentType: string): string {
  return contentType.replace(/;.*/s, '').trim().toLowerCase();
}

/** Whether a list of this `Content-Type` is a raw bitstring, which needs no parsing. */
export function isRaw(contentType: string): boolean {
  return RAW_TYPES.includes(mediaTypeOf(contentType));
}

/**
 * Reads a status list in any supported form: a credential as JSON, a credential secured as a JWT, or a raw bitstring. A
 * long list blocks the calling thread for some tenths of a second.
 *
 * Signatures are checked only if an issuer is pinned: otherwise there is no trusted key to check them against.
 *
 * @param body at most 16 MiB
 * @param contentType the value of `Content-Type`
 * @throws {@link StatusListError} if it is not a list, or cannot be trusted
 * @see W3C Bitstring Status List §3.2
 * @example const { bits } = await readStatusList(body, 'application/vc+jwt', { issuer, nowMs: Date.now() });
 */
export async function readStatusList(
  body: Buffer,
  contentType: string,
  { issuer, nowMs, maxUnpackedBytes }: ReadOptions,
): Promise<StatusList> {
  const mediaType = mediaTypeOf(contentType);
  if (RAW_TYPES.includes(mediaType)) {
    if (issuer !== undefined) throw unsigned('it is a raw bitstring', issuer);
    return toStatusList(body, { validFromMs: -Infinity, validUntilMs: Infinity });
  }
  let credential: StatusListCredential;
  if (JWT_TYPES.includes(mediaType)) credential = readJwt(body, issuer);
  else if (JSON_TYPES.includes(mediaType)) credential = readJson(body, issuer);
  else {
    const understood = [...JWT_TYPES, ...JSON_TYPES, ...RAW_TYPES].join(', ');
    throw new StatusListError(
      'content_type',
      `its Content-Type is ${JSON.stringify(contentType.slice(0, 80))}, expected one of ${understood}`,
    );
  }
  assertValidAt(nowMs, credential);
  return toStatusList(await unpackBits(credential.encodedList, maxUnpackedBytes), credential);
}

function readJson(body: Buffer, issuer: ListIssuer | undefined): StatusListCredential {
  assertFewValues(body);
  const text = decodeUtf8(body);
  if (text === null) throw malformed('it is not UTF-8');
  const { value: document, defect } = parseStrictJson(text);
  if (defect) throw malformed(`it is not strict JSON: ${defect.message}`);
  if (!isJsonObject(document)) throw malformed('it is not a JSON object');
  if (issuer !== undefined) assertProofBy(issuer, document);
  const credential = readCredential(document);
  assertIssuedBy(issuer, credential);
  return credential;
}

function readJwt(body: Buffer, issuer: ListIssuer | undefined): StatusListCredential {
  // latin1 maps every byte to one character, so the signed bytes are exactly the parsed ones. A JWT is ASCII anyway.
  const text = body.toString('latin1').trim();
  for (const segment of text.split('.', 2)) assertFewValues(Buffer.from(segment, 'base64url'));
  const jwt = parseCompactJwt(text);
  if (jwt.defect !== undefined) throw malformed(`it is not a JWT: ${jwt.defect}`);
  if (jwt.algorithm !== 'EdDSA' && jwt.algorithm !== 'Ed25519') {
    throw new StatusListError('untrusted', `its alg is ${JSON.stringify(jwt.algorithm)}, expected "EdDSA"`);
  }
  if (issuer !== undefined) {
    const signingInput = Buffer.from(text.slice(0, jwt.signingInputLength), 'latin1');
    if (!verifyEd25519(jwt.signature, signingInput, Buffer.from(issuer.publicKey))) {
      throw new StatusListError('untrusted', `its signature does not verify under ${issuer.did}`);
    }
  }
  const credential = narrowByClaims(readCredential(jwt.payload), jwt.payload);
  assertIssuedBy(issuer, credential);
  return credential;
}

/** If there are several proofs, the first one by the pinned issuer decides. */
function assertProofBy(issuer: ListIssuer, document: JsonObject): void {
  const member = document['proof'];
  const proof = (Array.isArray(member) ? member : [member])
    .filter(isJsonObject)
    .find((one) => one['verificationMethod'] === issuer.verificationMethod);
  if (proof === undefined) throw unsigned('it has no proof by that issuer', issuer);
  const defect =
    proof['proofPurpose'] === 'assertionMethod'
      ? findProofDefect(document, proof, Buffer.from(issuer.publicKey))
      : 'the proofPurpose of its proof is not "assertionMethod"';
  if (defect !== null) throw new StatusListError('untrusted', `${defect} (issuer ${issuer.did})`);
}

function assertIssuedBy(issuer: ListIssuer | undefined, credential: StatusListCredential): void {
  if (issuer !== undefined && credential.issuer !== issuer.did) {
    throw new StatusListError(
      'untrusted',
      `its issuer is ${JSON.stringify(credential.issuer.slice(0, 80))}, expected ${issuer.did}`,
    );
  }
}

function assertValidAt(nowMs: number, { validFromMs, validUntilMs }: StatusListCredential): void {
  const defect =
    nowMs < validFromMs
      ? `it becomes valid at ${isoTime(validFromMs)}`
      : nowMs >= validUntilMs
        ? `it was valid until ${isoTime(validUntilMs)}`
        : null;
  if (defect !== null) {
    throw new StatusListError('out_of_validity', `${defect}; the clock here says ${isoTime(nowMs)}`);
  }
}

function toStatusList(
  bits: Buffer,
  { validFromMs, validUntilMs }: Pick<StatusListCredential, 'validFromMs' | 'validUntilMs'>,
): StatusList {
  if (bits.length === 0) throw malformed('it has no entries');
  return { bits, entries: bits.length * 8, validFromMs, validUntilMs };
}

const COMMA = 0x2c;
const BRACKET = 0x5b;
const BRACE = 0x7b;

/**
 * Bounds the time and the memory for parsing. `parseStrictJson` allows as many strings and numbers as fit into the
 * text: of 16 MiB of `1,1,…` it makes 170 MB, in seconds. Here strings and numbers count too: a real credential has a
 * few dozen values, with all bits in one long string. Every value except the first follows one of these characters,
 * or belongs to a member that does, so counting the characters bounds the number of values.
 */
function assertFewValues(json: Uint8Array): void {
  let values = 0;
  for (const byte of json) if (byte === COMMA || byte === BRACKET || byte === BRACE) values++;
  if (values > MAX_JSON_NODES) {
    throw malformed(
      `it has more than ${MAX_JSON_NODES} values, expected a credential with one long encodedList`,
    );
  }
}

function unsigned(found: string, { did }: ListIssuer): StatusListError {
  return new StatusListError(
    'untrusted',
    `${found}, expected a vc+jwt signature or an eddsa-jcs-2022 proof by ${did}`,
  );
}

const malformed = (message: string) => new StatusListError('malformed', message);

/** A time for a message: ISO 8601, or milliseconds if it is outside the range of dates. */
export const isoTime = (ms: number) => (Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`);
