import { fromBase64url, keyOfDid } from './encoding.js';
import { stringOf } from './claims.js';
import { member, readJson, type Json, type JsonObject } from './json.js';
import type { Jwt } from './jwt.js';

/** By the `did:web` of each entry: the text of its document, or that there is no usable copy. */
export type Documents = ReadonlyMap<string, string | undefined>;

const FIELDS = ['Multikey', 'Ed25519VerificationKey2020', 'JsonWebKey', 'JsonWebKey2020'];

/** The keys of an issuer that may have signed a JWT, or why there are none. See docs/spec/encoding.md, "Keys". */
export function keysFor(
  { header }: Jwt,
  iss: string,
  documents: Documents,
  now: number,
): readonly Buffer[] | 'UNRESOLVABLE_DID' | 'DID_RESOLUTION_FAILED' {
  const own = keyOfDid(iss);
  if (own !== undefined) return [own];
  if (!documents.has(iss)) return 'UNRESOLVABLE_DID';
  const methods = readMethods(iss, documents.get(iss), now);
  if (methods === undefined) return 'DID_RESOLUTION_FAILED';
  if (methods.length === 0) return 'UNRESOLVABLE_DID';
  const kid = stringOf(header, 'kid');
  const named = methods.find(({ id }) =>
    [id, id.slice(iss.length), id.slice(iss.length + 1)].includes(kid ?? ''),
  );
  return (named === undefined ? methods.slice(0, 4) : [named]).map(({ key }) => key);
}

/** `undefined` if it is not the document of this DID. */
function readMethods(did: string, text: string | undefined, now: number) {
  const document = text === undefined ? undefined : readJson(text);
  if (document?.kind !== 'object' || stringOf(document, 'id') !== did) return undefined;
  const described = listOf(document, 'verificationMethod');
  const found = listOf(document, 'assertionMethod').flatMap((one) => {
    const id = idOf(did, one);
    const method =
      one.kind === 'object'
        ? one
        : described.find((other) => other.kind === 'object' && idOf(did, other) === id);
    const key = method?.kind === 'object' ? keyOf(method, did, now) : undefined;
    return id === undefined || key === undefined ? [] : [{ id, key }];
  });
  return found.slice(0, 16);
}

function listOf(document: JsonObject, name: string): readonly Json[] {
  const list = member(document, name);
  return list?.kind === 'array' ? list.items : [];
}

/** In full. */
function idOf(did: string, one: Json): string | undefined {
  const id = one.kind === 'string' ? one.value : one.kind === 'object' ? stringOf(one, 'id') : undefined;
  const full = id?.startsWith('#') === true ? did + id : id;
  const [base, fragment = '', ...others] = full?.split('#') ?? [];
  if (base !== did || fragment === '' || fragment.length > 200 || others.length > 0) return undefined;
  return full;
}

function keyOf(method: JsonObject, did: string, now: number): Buffer | undefined {
  const kind = FIELDS.indexOf(stringOf(method, 'type') ?? '');
  if (kind < 0 || stringOf(method, 'controller') !== did || member(method, 'revoked') !== undefined)
    return undefined;
  const expires = stringOf(method, 'expires');
  if (member(method, 'expires') !== undefined && !(Date.parse(expires ?? '') > now * 1000)) return undefined;
  if (kind < 2) return keyOfDid(`did:key:${stringOf(method, 'publicKeyMultibase') ?? ''}`);
  const jwk = member(method, 'publicKeyJwk');
  if (jwk?.kind !== 'object' || member(jwk, 'd') !== undefined) return undefined;
  if (stringOf(jwk, 'kty') !== 'OKP' || stringOf(jwk, 'crv') !== 'Ed25519') return undefined;
  const bytes = fromBase64url(stringOf(jwk, 'x') ?? '');
  return bytes?.length === 32 ? bytes : undefined;
}
