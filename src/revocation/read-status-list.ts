import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import { publicKeyOf } from '../protocol/did-key.js';
import { parseCompactJwt } from '../protocol/jwt.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import { verifyEd25519 } from '../signatures/verify-ed25519.js';
import { unpackBits } from './bitstring.js';
import { narrowByClaims, readCredential, type StatusListCredential } from './credential.js';
import { findProofDefect } from './data-integrity.js';
import { StatusListError } from './status-list-error.js';

/** A status list, unpacked and checked. */
export interface StatusList {
  readonly bits: Buffer;
  /** One for each bit. */
  readonly entries: number;
  /** Unix milliseconds; `Infinity` where it has no end. */
  readonly validUntilMs: number;
}

const JSON_TYPES = ['application/vc', 'application/json', 'application/ld+json', 'application/vc+ld+json'];
const JWT_TYPES = ['application/vc+jwt', 'application/jwt', 'application/vc+ld+json+jwt'];
const RAW_TYPE = 'application/octet-stream';

/**
 * Reads a status list in any of the forms that are understood: a credential as JSON, one secured as a JWT, a raw
 * bitstring. Unpacks off the main thread.
 *
 * Without a pinned issuer nothing shows who made the list but the connection, so no signature is looked at.
 *
 * @param body at most 16 MiB
 * @param contentType the value of `Content-Type`; it alone says which form the body has
 * @param options.issuer a `did:key` that must have signed the list
 * @param options.nowMs Unix milliseconds, which must lie in the list's validity period
 * @throws {@link StatusListError} where it is no list, or not one to rely on
 * @see W3C Bitstring Status List §3.2; spec/decisions.md §8
 * @example const { bits } = await readStatusList(body, 'application/vc+jwt', { issuer, nowMs: Date.now() });
 */
export async function readStatusList(
  body: Buffer,
  contentType: string,
  options: { issuer?: string | undefined; nowMs: number },
): Promise<StatusList> {
  const mediaType = (contentType.split(';', 1)[0] ?? '').trim().toLowerCase();
  if (mediaType === RAW_TYPE) {
    if (options.issuer !== undefined) throw unsigned('it is a raw bitstring', options.issuer);
    return toStatusList(body, Infinity);
  }
  let credential: StatusListCredential;
  if (JWT_TYPES.includes(mediaType)) credential = readJwt(body, options.issuer);
  else if (JSON_TYPES.includes(mediaType)) credential = readJson(body, options.issuer);
  else {
    const understood = [...JWT_TYPES, ...JSON_TYPES, RAW_TYPE].join(', ');
    throw new StatusListError(
      'content_type',
      `its Content-Type is ${JSON.stringify(contentType.slice(0, 80))}, expected one of ${understood}`,
    );
  }
  assertValidAt(options.nowMs, credential);
  return toStatusList(await unpackBits(credential.encodedList), credential.validUntilMs);
}

function readJson(body: Buffer, issuer: string | undefined): StatusListCredential {
  const { value: document, defect } = parseStrictJson(decodeUtf8(body) ?? '');
  if (defect) throw malformed(`it is not strict JSON: ${defect.message}`);
  if (!isJsonObject(document)) throw malformed('it is not a JSON object');
  if (issuer !== undefined) assertProofBy(issuer, document);
  const credential = readCredential(document);
  assertIssuedBy(issuer, credential);
  return credential;
}

function readJwt(body: Buffer, issuer: string | undefined): StatusListCredential {
  // latin1 keeps every byte one character, so what is signed is what was parsed; a JWT is ASCII in any case.
  const text = body.toString('latin1').trim();
  const jwt = parseCompactJwt(text);
  if (jwt.defect !== undefined) throw malformed(`it is not a JWT: ${jwt.defect}`);
  if (jwt.algorithm !== 'EdDSA' && jwt.algorithm !== 'Ed25519') {
    throw new StatusListError('untrusted', `its alg is ${JSON.stringify(jwt.algorithm)}, expected "EdDSA"`);
  }
  if (issuer !== undefined) {
    const signingInput = Buffer.from(text.slice(0, jwt.signingInputLength), 'latin1');
    if (!verifyEd25519(jwt.signature, signingInput, keyOf(issuer))) {
      throw new StatusListError('untrusted', `its signature does not verify under ${issuer}`);
    }
  }
  const credential = narrowByClaims(readCredential(jwt.payload), jwt.payload);
  assertIssuedBy(issuer, credential);
  return credential;
}

/** Of several proofs the first by the pinned issuer decides. */
function assertProofBy(issuer: string, document: JsonObject): void {
  const member = document['proof'];
  const proofs = (Array.isArray(member) ? member : [member]).filter((proof) => proof !== undefined);
  const method = `${issuer}#${issuer.slice('did:key:'.length)}`;
  const proof = proofs.filter(isJsonObject).find((one) => one['verificationMethod'] === method);
  if (proof === undefined) throw unsigned('it has no proof by that issuer', issuer);
  const defect =
    proof['proofPurpose'] === 'assertionMethod'
      ? findProofDefect(document, proof, keyOf(issuer))
      : 'the proofPurpose of its proof is not "assertionMethod"';
  if (defect !== null) throw new StatusListError('untrusted', `${defect} (issuer ${issuer})`);
}

function assertIssuedBy(issuer: string | undefined, credential: StatusListCredential): void {
  if (issuer !== undefined && credential.issuer !== issuer) {
    throw new StatusListError(
      'untrusted',
      `its issuer is ${JSON.stringify(credential.issuer.slice(0, 80))}, expected ${issuer}`,
    );
  }
}

function assertValidAt(nowMs: number, { validFromMs, validUntilMs }: StatusListCredential): void {
  const defect =
    nowMs < validFromMs
      ? `it becomes valid at ${iso(validFromMs)}`
      : nowMs >= validUntilMs
        ? `it was valid until ${iso(validUntilMs)}`
        : null;
  if (defect !== null) {
    throw new StatusListError('out_of_validity', `${defect}; the clock here says ${iso(nowMs)}`);
  }
}

function toStatusList(bits: Buffer, validUntilMs: number): StatusList {
  if (bits.length === 0) throw malformed('it has no entries');
  return { bits, entries: bits.length * 8, validUntilMs };
}

function keyOf(issuer: string): Buffer {
  const key = publicKeyOf(issuer);
  if (key === null)
    throw new StatusListError('untrusted', `the pinned issuer ${issuer} is no Ed25519 did:key`);
  return Buffer.from(key);
}

function unsigned(found: string, issuer: string): StatusListError {
  return new StatusListError(
    'untrusted',
    `${found}, expected a vc+jwt signature or an eddsa-jcs-2022 proof by ${issuer}`,
  );
}

const malformed = (message: string) => new StatusListError('malformed', message);
const iso = (ms: number) => (Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`);
