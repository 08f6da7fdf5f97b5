import { createPublicKey, verify, type KeyObject } from 'node:crypto';
import { decodeBase58 } from '../../protocol/did-key.js';
import type { CompactJwt } from '../../protocol/jwt.js';
import type { KeyResolver } from '../../protocol/key-resolver.js';
import { verifyEd25519 } from '../../signatures/in-thread.js';
import { P256_DID } from '../../trust/read-status-lists.js';
import { StatusListError } from './status-list-error.js';

/** Who must have signed a list. */
export interface ListIssuer {
  readonly did: string;
  /** Where its keys of Ed25519 are found. */
  readonly keys: KeyResolver;
  /** Instead, a key for ES256. */
  readonly p256: KeyObject | null;
}

/** The issuer that a DID names. @throws {@link StatusListError} `untrusted` if it names none, as of now */
export function resolveIssuer(did: string, keys: KeyResolver): ListIssuer {
  const found = keys.keysOf(did, null);
  const p256 = p256KeyOf(did);
  if (p256 === null && (found === null || found.length === 0))
    throw untrusted(
      `the pinned issuer ${did} ${found === null ? 'has no keys that are known' : `is not ${keys.expected}`}`,
    );
  return { did, keys, p256 };
}

// What comes before a compressed point in a SubjectPublicKeyInfo of P-256. RFC 5480 §2
const SPKI_START = Buffer.from('3039301306072a8648ce3d020106082a8648ce3d030107032200', 'hex');

/** The P-256 key that a `did:key` names: 0x80 0x24 and a compressed point. @see W3C did:key §3.1.3 */
function p256KeyOf(did: string): KeyObject | null {
  const bytes = P256_DID.test(did) ? decodeBase58(did.slice('did:key:z'.length)) : null;
  if (bytes?.length !== 35 || bytes[0] !== 0x80 || bytes[1] !== 0x24) return null;
  try {
    const key = Buffer.concat([SPKI_START, bytes.subarray(2)]);
    return createPublicKey({ key, format: 'der', type: 'spki' });
  } catch {
    return null;
  }
}

/**
 * Requires an algorithm of lists, and if an issuer is pinned, its signature.
 *
 * @param text the JWT; each character is a byte
 * @throws {@link StatusListError} `untrusted`
 */
export function assertSigned(text: string, jwt: CompactJwt, issuer: ListIssuer | undefined): void {
  const { algorithm, kid, signature, signingInputLength } = jwt;
  const p256 = issuer?.p256 ?? null;
  const expected = p256 === null ? 'EdDSA' : 'ES256';
  // RFC 9864 gives EdDSA with this curve a name of its own.
  if (algorithm !== expected && (p256 !== null || algorithm !== 'Ed25519'))
    throw untrusted(`its alg is ${JSON.stringify(algorithm)}, expected "${expected}"`);
  if (issuer === undefined) return;
  const input = Buffer.from(text.slice(0, signingInputLength), 'latin1');
  const { did, keys } = issuer;
  const isGenuine =
    p256 === null
      ? keys.keysOf(did, kid)?.some((key) => verifyEd25519(signature, input, Buffer.from(key))) === true
      : signature.length === 64 &&
        verify('sha256', input, { key: p256, dsaEncoding: 'ieee-p1363' }, signature);
  if (!isGenuine) throw untrusted(`its signature does not verify under ${did}`);
}

export const untrusted = (message: string) => new StatusListError('untrusted', message);
