import { promisify } from 'node:util';
import { deflate, gzip } from 'node:zlib';
import { encodeBase64url } from '#platform';
import { toJcs } from '../../protocol/jcs.js';
import type { JsonObject, JsonValue } from '../../protocol/json.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import { countOf, inflateBits, unpackBits, type ListEntries } from './bitstring.js';
import { MAX_ROOT_LIST_BYTES, MAX_UNPACKED_BYTES, MAX_WIRE_BYTES, readCredential } from './credential.js';
import { readTokenEntries } from './read-token-list.js';

const gzipAsync = promisify(gzip);
const deflateAsync = promisify(deflate);

/** W3C's minimum, 131,072 entries. In a shorter list, an entry reveals too much about its holder. */
export const DEFAULT_STATUS_LIST_ENTRIES = 131_072;

/** The signer of a list. The keys and signers of `drs-verify/issue` have this type. */
export interface StatusListSigner {
  /** `did:key:z6Mk…` */
  readonly did: string;
  /** 64 bytes, RFC 8032. */
  sign(message: Uint8Array): Promise<Uint8Array> | Uint8Array;
}

/** A status list that can be changed and published. */
export interface EditableStatusList extends ListEntries {
  /** The URL of the list, under which verifiers fetch it. */
  readonly id: string;
  /** Whoever signed it, if that is in it. */
  readonly issuer?: string;
}

/**
 * A new list in which nothing is revoked.
 *
 * @param list.entries a multiple of 8, such as {@link DEFAULT_STATUS_LIST_ENTRIES}
 * @param list.form a Bitstring Status List of the W3C, or a Token Status List of one bit an entry
 * @throws RangeError for another number of entries, or more than 134,217,728; 33,554,432 of a token
 */
export function createStatusList({
  id,
  entries,
  form = 'w3c',
}: {
  id: string;
  entries: number;
  form?: 'w3c' | 'token';
}): EditableStatusList {
  const bytes = entries / 8;
  const maxBytes = form === 'token' ? MAX_ROOT_LIST_BYTES : MAX_UNPACKED_BYTES;
  if (Number.isSafeInteger(bytes) && bytes > 0 && bytes <= maxBytes)
    return { id, bits: Buffer.alloc(bytes), tokenBits: form === 'token' ? 1 : null };
  throw new RangeError(
    `a status list cannot have ${entries} entries, expected a multiple of 8 up to ${maxBytes * 8}`,
  );
}

/**
 * Marks an entry of a list as revoked, or no longer so.
 *
 * @throws RangeError if the list has no such entry
 */
export function setRevoked(list: EditableStatusList, index: number, revoked = true): void {
  const entries = countOf(list);
  if (!Number.isSafeInteger(index) || index < 0 || index >= entries)
    throw new RangeError(`the list has no entry ${index}, expected 0 … ${entries - 1}`);
  const { bits, tokenBits } = list;
  const at = Math.floor((index * (tokenBits ?? 1)) / 8);
  const shift = tokenBits === null ? 7 - (index & 7) : (index * tokenBits) & 7;
  const others = (bits[at] ?? 0) & ~((2 ** (tokenBits ?? 1) - 1) << shift);
  bits[at] = revoked ? others | (1 << shift) : others;
}

/**
 * Signs a list as a `vc+jwt`, to be served as `application/vc+jwt`; a Token Status List as a `statuslist+jwt`.
 *
 * @param options.validUntil verifiers refuse the list after this time; without it, they alone decide how old it may be
 * @returns the compact JWT; its payload is the credential itself
 * @throws RangeError if it is longer than what verifiers read
 * @see W3C Bitstring Status List §2.2 and §3.3, vc-jose-cose §3.1.1, RFC 8037; draft-ietf-oauth-status-list-21 §5.1
 * @example
 * const list = createStatusList({ id: 'https://lists.example/1', entries: 131_072 });
 * setRevoked(list, 94567);
 * await writeFile('list.jwt', await signStatusList(list, { signer: key, validFrom: new Date() }));
 */
export async function signStatusList(
  list: EditableStatusList,
  options: { signer: StatusListSigner; validFrom: Date; validUntil?: Date },
): Promise<string> {
  const { signer, validFrom, validUntil } = options;
  const { did } = signer;
  const { id, bits, tokenBits } = list;
  const key = { alg: 'EdDSA', kid: `${did}#${did.slice('did:key:'.length)}` };
  if (tokenBits !== null) {
    const claims = {
      iss: did,
      sub: id,
      iat: toSeconds(validFrom),
      ...(validUntil ? { exp: toSeconds(validUntil) } : {}),
      status_list: { bits: tokenBits, lst: encodeBase64url(await deflateAsync(bits, { level: 9 })) },
    };
    return signJwt({ ...key, typ: 'statuslist+jwt' }, claims, signer);
  }
  const credential = {
    '@context': ['https://www.w3.org/ns/credentials/v2'],
    id,
    type: ['VerifiableCredential', 'BitstringStatusListCredential'],
    issuer: did,
    validFrom: toDateTime(validFrom),
    ...(validUntil ? { validUntil: toDateTime(validUntil) } : {}),
    credentialSubject: {
      id: `${id}#list`,
      type: 'BitstringStatusList',
      statusPurpose: 'revocation',
      encodedList: `u${encodeBase64url(await gzipAsync(bits))}`,
    },
  };
  return signJwt({ ...key, typ: 'vc+jwt', cty: 'vc' }, credential, signer);
}

async function signJwt(header: JsonObject, claims: JsonObject, signer: StatusListSigner): Promise<string> {
  const signingInput = `${encode(header)}.${encode(claims)}`;
  const jwt = `${signingInput}.${encodeBase64url(await signer.sign(Buffer.from(signingInput)))}`;
  if (jwt.length < MAX_WIRE_BYTES) return jwt;
  throw new RangeError(`the list has ${jwt.length} bytes, expected fewer than ${MAX_WIRE_BYTES}`);
}

/**
 * Opens a list of {@link signStatusList}, to change it and sign it again. For its owner: the signature is not checked.
 *
 * @throws SyntaxError if the text is not a JWT
 * @throws StatusListError if it is not a revocation list
 */
export async function openStatusList(jwt: string): Promise<EditableStatusList> {
  const parsed = parseCompactJwt(jwt.trim());
  if (parsed.defect !== undefined) throw new SyntaxError(`the list is not a JWT: ${parsed.defect}`);
  const { id, sub, iss, status_list: entries } = parsed.payload;
  if (entries !== undefined) {
    const { packed, tokenBits } = readTokenEntries(entries);
    const bits = await inflateBits(packed, MAX_ROOT_LIST_BYTES);
    return { id: textOf(sub), bits, tokenBits, ...(typeof iss === 'string' && { issuer: iss }) };
  }
  const { packed, issuer } = readCredential(parsed.payload);
  return { id: textOf(id), issuer, bits: await unpackBits(packed), tokenBits: null };
}

const encode = (value: JsonObject) => encodeBase64url(Buffer.from(toJcs(value)));
const textOf = (value: JsonValue | undefined) => (typeof value === 'string' ? value : '');
const toSeconds = (time: Date) => Math.floor(time.getTime() / 1000);
const toDateTime = (time: Date) => time.toISOString().replace(/\.\d{3}/, '');
