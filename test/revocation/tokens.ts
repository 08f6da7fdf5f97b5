import { createPrivateKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { base58 } from '@scure/base';
import { newIssuer } from './lists.js';

/** Token Status Lists made without the code under test, by node:crypto and node:zlib. */

export const TOKEN_URI = 'https://lists.example/tokens/1';

/** Who signs a list, and how. */
export interface TokenIssuer {
  readonly did: string;
  readonly alg: 'EdDSA' | 'ES256';
  readonly privateKey: KeyObject;
}

export function newTokenIssuer(): TokenIssuer {
  const { did, privateKey } = newIssuer();
  return { did, alg: 'EdDSA', privateKey };
}

/** An issuer with a key of P-256, as `did:key`. */
export function newP256Issuer(): TokenIssuer {
  const pem = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'der' },
  });
  // The uncompressed point is at the end of the encoding.
  const [x, y] = [pem.publicKey.subarray(-64, -32), pem.publicKey.subarray(-32)];
  const point = Buffer.concat([Buffer.of(0x80, 0x24, 2 + ((y[31] ?? 0) & 1)), x]);
  return {
    did: `did:key:z${base58.encode(point)}`,
    alg: 'ES256',
    privateKey: createPrivateKey(pem.privateKey),
  };
}

/** `lst` of values, the first in the least significant bits of byte 0. */
function lstOf(values: Readonly<Record<number, number>>, bits: number, entries: number): string {
  const bytes = Buffer.alloc(Math.ceil((entries * bits) / 8));
  for (const [index, value] of Object.entries(values)) {
    const at = Number(index) * bits;
    bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (value << (at & 7));
  }
  return deflateSync(bytes).toString('base64url');
}

type Claims = Readonly<Record<string, unknown>>;

/** A list as a JWT; `changes` replace its claims, `header` members of its header. */
export function tokenWith(
  values: Readonly<Record<number, number>>,
  issuer: TokenIssuer,
  { changes = {}, header = {}, bits = 2, nowMs = Date.now() }: TokenChanges = {},
): string {
  const claims = {
    sub: TOKEN_URI,
    iat: Math.floor(nowMs / 1000) - 10,
    status_list: { bits, lst: lstOf(values, bits, 4096) },
    ...changes,
  };
  return signToken(JSON.stringify(claims), issuer, header);
}

/** Signs any payload as a list. */
export function signToken(payload: string, issuer: TokenIssuer, header: Claims = {}): string {
  const segment = (text: string) => Buffer.from(text).toString('base64url');
  const start = segment(JSON.stringify({ alg: issuer.alg, typ: 'statuslist+jwt', ...header }));
  const input = `${start}.${segment(payload)}`;
  const key = { key: issuer.privateKey, dsaEncoding: 'ieee-p1363' as const };
  const signature = sign(issuer.alg === 'ES256' ? 'sha256' : null, Buffer.from(input), key);
  return `${input}.${signature.toString('base64url')}`;
}

export interface TokenChanges {
  readonly changes?: Claims;
  readonly header?: Claims;
  readonly bits?: number;
  readonly nowMs?: number;
}
