import { decodeBase64url, decodeUtf8, type Bytes } from '#platform';
import { PUBLIC_KEY_BYTES } from '../protocol/did-key.js';
import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../protocol/json.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { show } from '../verify/codes.js';

/** A key by which a DID's holder makes statements. */
export interface DocumentKey {
  /** The fragment of its identifier. */
  readonly name: string;
  /** 32 bytes. */
  readonly key: Uint8Array;
}

const MAX_KEYS = 16;

/**
 * Reads the Ed25519 keys of a DID document that may sign receipts: those under `assertionMethod`, in this order.
 *
 * @returns the keys, or what is wrong with the document
 * @see docs/spec/encoding.md, "did:web"; W3C DID Core §5.3.2, Controlled Identifiers §2.2
 */
export function readDocument(body: Bytes, did: string, nowMs: number): readonly DocumentKey[] | string {
  const text = decodeUtf8(body);
  if (text === null) return 'it is not UTF-8';
  const { value: document, defect } = parseStrictJson(text);
  if (defect !== undefined) return `it is not strict JSON: ${defect.message}`;
  if (!isJsonObject(document) || document['id'] !== did)
    return `its id is ${show(isJsonObject(document) ? document['id'] : undefined)}, expected ${show(did)}`;
  const { verificationMethod: described = [], assertionMethod: named = [] } = document;
  if (!Array.isArray(described) || !Array.isArray(named))
    return 'its verificationMethod or assertionMethod is not an array';
  const byName = new Map<string, JsonObject>();
  for (const method of described) {
    const name = isJsonObject(method) ? nameIn(did, method['id']) : null;
    if (name !== null && !byName.has(name)) byName.set(name, method as JsonObject);
  }
  const keys = named.map((one) => {
    const name = nameIn(did, isJsonObject(one) ? one['id'] : one);
    const method = isJsonObject(one) ? one : byName.get(name ?? '');
    const key = method === undefined ? null : keyOf(method, did, nowMs);
    return name === null || key === null ? null : { name, key };
  });
  return keys.filter((one) => one !== null).slice(0, MAX_KEYS);
}

/** The fragment of an identifier of this DID, which may be left out; `null` for another's. */
function nameIn(did: string, id: JsonValue | undefined): string | null {
  if (typeof id !== 'string') return null;
  const [, name = null] = /^#([^#]{1,200})$/.exec(id.startsWith(did) ? id.slice(did.length) : id) ?? [];
  return name;
}

function keyOf(method: JsonObject, did: string, nowMs: number): Uint8Array | null {
  const { type, controller, revoked, expires, publicKeyMultibase: multibase, publicKeyJwk: jwk } = method;
  if (controller !== did || revoked !== undefined) return null;
  const isOver =
    typeof expires !== 'string' || !/(?:Z|[+-]\d\d:\d\d)$/.test(expires) || !(Date.parse(expires) > nowMs);
  if (expires !== undefined && isOver) return null;
  if (type === 'Multikey' || type === 'Ed25519VerificationKey2020')
    return typeof multibase === 'string' ? DEFAULT_KEYS.publicKeyOf(`did:key:${multibase}`) : null;
  if ((type !== 'JsonWebKey' && type !== 'JsonWebKey2020') || !isJsonObject(jwk)) return null;
  const { kty, crv, x } = jwk;
  if (kty !== 'OKP' || crv !== 'Ed25519' || typeof x !== 'string' || Object.hasOwn(jwk, 'd')) return null;
  const key = decodeBase64url(x);
  return key?.length === PUBLIC_KEY_BYTES ? key : null;
}
