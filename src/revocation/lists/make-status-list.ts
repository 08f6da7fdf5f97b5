import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { encodeBase64url } from '#platform';
import { toJcs } from '../../protocol/jcs.js';
import type { JsonObject } from '../../protocol/json.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import { unpackBits } from './bitstring.js';
import { MAX_UNPACKED_BYTES, MAX_WIRE_BYTES, readCredential } from './credential.js';

const gzipAsync = promisify(gzip);

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
export interface EditableStatusList {
  /** The URL of the list, under which verifiers fetch it. */
  readonly id: string;
  /** Whoever signed it, if it was signed. */
  readonly issuer?: string;
  /** Bit 0 is the most significant bit of byte 0. */
  readonly bits: Buffer;
}

/**
 * A new list in which nothing is revoked.
 *
 * @param list.entries a multiple of 8, such as {@link DEFAULT_STATUS_LIST_ENTRIES}
 * @throws RangeError for another number of entries, or more than 134,217,728
 */
export function createStatusList({ id, entries }: { id: string; entries: number }): EditableStatusList {
  const bytes = entries / 8;
  if (Number.isSafeInteger(bytes) && bytes > 0 && bytes <= MAX_UNPACKED_BYTES)
    return { id, bits: Buffer.alloc(bytes) };
  throw new RangeError(
    `a status list cannot have ${entries} entries, expected a multiple of 8 up to ${MAX_UNPACKED_BYTES * 8}`,
  );
}

/**
 * Marks an entry of a list as revoked, or no longer so.
 *
 * @throws RangeError if the list has no such entry
 */
export function setRevoked(list: EditableStatusList, index: number, revoked = true): void {
  const entries = list.bits.length * 8;
  if (!Number.isSafeInteger(index) || index < 0 || index >= entries)
    throw new RangeError(`the list has no entry ${index}, expected 0 … ${entries - 1}`);
  const mask = 0x80 >>> (index & 7);
  const byte = list.bits[index >>> 3] ?? 0;
  list.bits[index >>> 3] = revoked ? byte | mask : byte & ~mask;
}

/**
 * Signs a list as a `vc+jwt`, to be served as `application/vc+jwt`.
 *
 * @param options.validUntil verifiers refuse the list after this time; without it, they alone decide how old it may be
 * @returns the compact JWT; its payload is the credential itself
 * @throws RangeError if it is longer than what verifiers read
 * @see W3C Bitstring Status List §2.2 and §3.3, vc-jose-cose §3.1.1, RFC 8037
 * @example
 * const list = createStatusList({ id: 'https://lists.example/1', entries: 131_072 });
 * setRevoked(list, 94567);
 * await writeFile('list.jwt', await signStatusList(list, { signer: key, validFrom: new Date() }));
 */
export async function signStatusList(
  { id, bits }: EditableStatusList,
  options: { signer: StatusListSigner; validFrom: Date; validUntil?: Date },
): Promise<string> {
  const { signer, validFrom, validUntil } = options;
  const { did } = signer;
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
  const header = { alg: 'EdDSA', typ: 'vc+jwt', cty: 'vc', kid: `${did}#${did.slice('did:key:'.length)}` };
  const signingInput = `${encode(header)}.${encode(credential)}`;
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
  const { packed, issuer } = readCredential(parsed.payload);
  const { id } = parsed.payload;
  return { id: typeof id === 'string' ? id : '', issuer, bits: await unpackBits(packed) };
}

const encode = (value: JsonObject) => encodeBase64url(Buffer.from(toJcs(value)));
const toDateTime = (time: Date) => time.toISOString().replace(/\.\d{3}/, '');
