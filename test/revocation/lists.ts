import { createHash, sign, type KeyObject } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { base58 } from '@scure/base';
import canonicalize from 'canonicalize';
import { CompactSign } from 'jose';
import { didKeyOf } from '../../src/protocol/did-key.js';
import { newKeyPair } from '../support/key-pair.js';

/** Lists made without the code under test: by node:crypto, jose and canonicalize. */

/** An issuer of lists. */
export interface Issuer {
  readonly did: string;
  readonly method: string;
  readonly privateKey: KeyObject;
}

export function newIssuer(): Issuer {
  const { privateKey, bytes } = newKeyPair();
  const did = didKeyOf(bytes);
  return { did, method: `${did}#${did.slice('did:key:'.length)}`, privateKey };
}

/** A bitstring in which the given entries are set. */
export function bitsWith(revoked: Iterable<number>, entries = 131_072): Buffer {
  const bits = Buffer.alloc(entries / 8);
  for (const index of revoked) {
    const at = Math.floor(index / 8);
    bits[at] = (bits[at] ?? 0) | (1 << (7 - (index % 8)));
  }
  return bits;
}

export const encode = (bits: Buffer) => `u${gzipSync(bits).toString('base64url')}`;

interface Changes {
  readonly [member: string]: unknown;
  readonly credentialSubject?: Record<string, unknown>;
}

/** The name of the lists here, wherever a test serves them. */
export const LIST_ID = 'https://lists.example/1';

/** A status list credential; `changes` replace its members, and those of its subject. */
export function credentialWith(revoked: Iterable<number>, changes: Changes = {}): Record<string, unknown> {
  const { credentialSubject, ...rest } = changes;
  return {
    '@context': ['https://www.w3.org/ns/credentials/v2'],
    id: LIST_ID,
    type: ['VerifiableCredential', 'BitstringStatusListCredential'],
    issuer: 'https://issuer.example',
    ...rest,
    credentialSubject: {
      id: `${LIST_ID}#list`,
      type: 'BitstringStatusList',
      statusPurpose: 'revocation',
      encodedList: encode(bitsWith(revoked)),
      ...credentialSubject,
    },
  };
}

/** An unsigned list, to be served. */
export function listWith(revoked: Iterable<number>, entries?: number): string {
  const encodedList = encode(bitsWith(revoked, entries));
  return JSON.stringify(credentialWith([], { credentialSubject: { encodedList } }));
}

/** A vc+jwt, signed by jose. */
export async function toJwt(credential: object, issuer: Issuer, header: object = {}): Promise<string> {
  return new CompactSign(Buffer.from(JSON.stringify(credential)))
    .setProtectedHeader({ alg: 'EdDSA', typ: 'vc+jwt', kid: issuer.method, ...header })
    .sign(issuer.privateKey);
}

/** The credential with an eddsa-jcs-2022 proof. W3C vc-di-eddsa §3.3.1 */
export function withProof(
  credential: Record<string, unknown>,
  issuer: Issuer,
  changes: Record<string, unknown> = {},
): Record<string, unknown> {
  const proof = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: '2026-01-01T00:00:00Z',
    verificationMethod: issuer.method,
    proofPurpose: 'assertionMethod',
    '@context': credential['@context'],
    ...changes,
  };
  const hash = (value: unknown) =>
    createHash('sha256')
      .update(canonicalize(value) as string)
      .digest();
  const signature = sign(null, Buffer.concat([hash(proof), hash(credential)]), issuer.privateKey);
  return { ...credential, proof: { ...proof, proofValue: `z${base58.encode(signature)}` } };
}
