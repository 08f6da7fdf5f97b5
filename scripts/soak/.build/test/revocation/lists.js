import { createHash, sign } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { base58 } from '@scure/base';
import canonicalize from 'canonicalize';
import { CompactSign } from 'jose';
import { didKeyOf } from '../../src/protocol/did-key.js';
import { newKeyPair } from '../support/key-pair.js';
export function newIssuer() {
  const { privateKey, bytes } = newKeyPair();
  const did = didKeyOf(bytes);
  return { did, method: `${did}#${did.slice('did:key:'.length)}`, privateKey };
}
/** A bitstring in which the given entries are set. */
export function bitsWith(revoked, entries = 131_072) {
  const bits = Buffer.alloc(entries / 8);
  for (const index of revoked) {
    const at = Math.floor(index / 8);
    bits[at] = (bits[at] ?? 0) | (1 << (7 - (index % 8)));
  }
  return bits;
}
export const encode = (bits) => `u${gzipSync(bits).toString('base64url')}`;
/** A status list credential; `changes` replace its members, and those of its subject. */
export function credentialWith(revoked, changes = {}) {
  const { credentialSubject, ...rest } = changes;
  return {
    '@context': ['https://www.w3.org/ns/credentials/v2'],
    id: 'https://lists.example/1',
    type: ['VerifiableCredential', 'BitstringStatusListCredential'],
    issuer: 'https://issuer.example',
    ...rest,
    credentialSubject: {
      id: 'https://lists.example/1#list',
      type: 'BitstringStatusList',
      statusPurpose: 'revocation',
      encodedList: encode(bitsWith(revoked)),
      ...credentialSubject,
    },
  };
}
/** A vc+jwt, signed by jose. */
export async function toJwt(credential, issuer, header = {}) {
  return new CompactSign(Buffer.from(JSON.stringify(credential)))
    .setProtectedHeader({ alg: 'EdDSA', typ: 'vc+jwt', kid: issuer.method, ...header })
    .sign(issuer.privateKey);
}
/** The credential with an eddsa-jcs-2022 proof. W3C vc-di-eddsa §3.3.1 */
export function withProof(credential, issuer, changes = {}) {
  const proof = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: '2026-01-01T00:00:00Z',
    verificationMethod: issuer.method,
    proofPurpose: 'assertionMethod',
    '@context': credential['@context'],
    ...changes,
  };
  const hash = (value) => createHash('sha256').update(canonicalize(value)).digest();
  const signature = sign(null, Buffer.concat([hash(proof), hash(credential)]), issuer.privateKey);
  return { ...credential, proof: { ...proof, proofValue: `z${base58.encode(signature)}` } };
}
