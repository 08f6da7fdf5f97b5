import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { base58 } from '@scure/base';
import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { countOf, valueAt } from '../../src/revocation/lists/bitstring.js';
import { resolveIssuer } from '../../src/revocation/lists/list-issuer.js';
import { readStatusList } from '../../src/revocation/lists/read-status-list.js';
import { readTokenList } from '../../src/revocation/lists/read-token-list.js';
import type { StatusListError } from '../../src/revocation/lists/status-list-error.js';
import { readVectors } from '../support/vectors.js';
import { credentialWith, LIST_ID, newIssuer, toJwt } from './lists.js';
import { newP256Issuer, newTokenIssuer, TOKEN_URI, tokenWith, type TokenChanges } from './tokens.js';

const NOW = Date.parse('2026-06-01T12:00:00Z');
const ISSUERS = { EdDSA: newTokenIssuer(), ES256: newP256Issuer() };
const { EdDSA: issuer } = ISSUERS;

const expectedOf = (did: string, maxBytes = 1 << 20) => ({
  ...{ name: TOKEN_URI, maxBytes, nowMs: NOW, clockSkewSecs: 30 },
  issuer: resolveIssuer(did, DEFAULT_KEYS),
});
const read = (text: string, did = issuer.did, maxBytes?: number) =>
  readTokenList(Buffer.from(text), expectedOf(did, maxBytes));

/** The fault of a list, and what its message says. */
async function faultOf(text: string, did?: string, maxBytes?: number) {
  try {
    await read(text, did, maxBytes);
    return 'none';
  } catch (error) {
    const { fault, message } = error as StatusListError;
    return `${fault}: ${message}`;
  }
}
const make = (options: TokenChanges = {}) => tokenWith({ 7: 1 }, issuer, { nowMs: NOW, ...options });

describe('lists that others made', () => {
  it.each(readVectors('token-status-lists'))('$from', async ({ entries, bits, lst, values }) => {
    const list = await read(make({ changes: { status_list: { bits, lst } } }), issuer.did, 2 ** 20);
    expect([list.tokenBits, countOf(list)]).toEqual([bits, entries]);
    const found = Array.from({ length: entries }, (_, index) => [index, valueAt(list, index)] as const);
    expect(Object.fromEntries(found.filter(([, value]) => value !== 0))).toEqual(
      Object.fromEntries(Object.entries(values).filter(([, value]) => value !== 0)),
    );
  });
});

describe('a Token Status List', () => {
  it.each(['EdDSA', 'ES256'] as const)('is read if its issuer has signed it with %s', async (alg) => {
    const { did } = ISSUERS[alg];
    const jwt = tokenWith({ 3: 2, 4: 1, 9: 3 }, ISSUERS[alg], {
      nowMs: NOW,
      changes: { ttl: 60, exp: NOW / 1000 + 5 },
    });
    const list = await read(` ${jwt}\n`, did);
    expect([0, 3, 4, 9].map((index) => valueAt(list, index))).toEqual([0, 2, 1, 3]);
    expect(list).toMatchObject({ ttlMs: 60_000, validFromMs: NOW - 10_000, validUntilMs: NOW + 5_000 });
    for (const other of [newTokenIssuer(), newP256Issuer()])
      expect(await faultOf(jwt, other.did)).toMatch(/^untrusted: its (?:signature|alg)/);
    expect(await faultOf(`${jwt.slice(0, -4)}AAAA`, did)).toMatch(/^untrusted: its signature/);
    expect(await faultOf(`${jwt}AAAA`, did)).toMatch(/^untrusted: its signature/);
  });

  it.each<[string, RegExp, TokenChanges]>([
    ['no sub', /^untrusted: its sub is missing/, { changes: { sub: undefined } }],
    ['the name of another list', /^untrusted: its sub is "x"/, { changes: { sub: 'x' } }],
    ['a name in an array', /^untrusted: its sub/, { changes: { sub: [TOKEN_URI] } }],
    ['the typ of another JWT', /^malformed: its typ is "vc\+jwt"/, { header: { typ: 'vc+jwt' } }],
    ['no typ', /^malformed: its typ is missing/, { header: { typ: undefined } }],
    ['no algorithm', /^untrusted: its alg is undefined/, { header: { alg: undefined } }],
    ['another algorithm', /^untrusted: its alg is "none"/, { header: { alg: 'none' } }],
    ['a critical member', /^malformed: it is not a JWT/, { header: { crit: ['x'], x: 1 } }],
    ['no iat', /^malformed: its iat is missing/, { changes: { iat: undefined } }],
    ['an iat as a string', /^malformed: its iat/, { changes: { iat: '1' } }],
    ['an iat to come', /^out_of_validity/, { changes: { iat: NOW / 1000 + 31 } }],
    ['an nbf to come', /^out_of_validity/, { changes: { nbf: NOW / 1000 + 31 } }],
    ['an exp that is now', /^out_of_validity/, { changes: { exp: NOW / 1000 } }],
    ['an exp that is null', /^malformed: its exp is null/, { changes: { exp: null } }],
    ['a ttl of 0', /^malformed: its ttl is 0/, { changes: { ttl: 0 } }],
    ['a ttl as a string', /^malformed: its ttl/, { changes: { ttl: '60' } }],
    ['no status_list', /^malformed: its status_list is missing/, { changes: { status_list: undefined } }],
    [
      '3 bits',
      /^malformed: its status_list.bits is 3/,
      { changes: { status_list: { bits: 3, lst: 'AAAA' } } },
    ],
    [
      'bits as a string',
      /^malformed: its status_list.bits/,
      { changes: { status_list: { bits: '1', lst: 'AAAA' } } },
    ],
    [
      'padding',
      /^malformed: its status_list.lst/,
      { changes: { status_list: { bits: 1, lst: 'eNpjYAAAAAEAAQ==' } } },
    ],
    ['no lst', /^malformed: its status_list.lst/, { changes: { status_list: { bits: 1 } } }],
  ])('with %s is refused', async (_, expected, options) => {
    expect(await faultOf(make(options))).toMatch(expected);
  });

  it('may have an iat, and an nbf, within the skew, and its typ in full', async () => {
    const soon = NOW / 1000 + 30;
    expect(await faultOf(make({ changes: { iat: soon, nbf: soon } }))).toBe('none');
    expect(await faultOf(make({ header: { typ: 'application/StatusList+JWT' } }))).toBe('none');
  });

  const pack = (data: Buffer) =>
    make({ changes: { status_list: { bits: 1, lst: data.toString('base64url') } } });
  it.each<[string, RegExp, Buffer]>([
    ['GZIP', /^malformed: its lst is not whole ZLIB data/, gzipSync(Buffer.alloc(8))],
    ['DEFLATE without ZLIB', /^malformed: its lst/, deflateRawSync(Buffer.alloc(8, 1))],
    ['a part', /^malformed: its lst/, deflateSync(Buffer.alloc(800)).subarray(0, -3)],
    [
      'a wrong checksum',
      /^malformed: its lst/,
      Buffer.concat([deflateSync(Buffer.alloc(8)).subarray(0, -1), Buffer.of(9)]),
    ],
    [
      'something behind it',
      /^malformed: its lst has something behind/,
      Buffer.concat([deflateSync(Buffer.alloc(8)), Buffer.of(0)]),
    ],
    ['a dictionary', /^malformed: its lst/, deflateSync(Buffer.alloc(8), { dictionary: Buffer.from('abc') })],
    ['nothing', /^malformed: it has no entries/, deflateSync(Buffer.alloc(0))],
    ['no data', /^malformed: its lst/, Buffer.alloc(0)],
  ])('of %s is refused', async (_, expected, data) => {
    expect(await faultOf(pack(data))).toMatch(expected);
  });

  it('is unpacked as far as its limit, and no further', async () => {
    const size = 4 << 20;
    expect(await faultOf(pack(deflateSync(Buffer.alloc(size))), issuer.did, size)).toBe('none');
    const bomb = pack(deflateSync(Buffer.alloc(size + 1)));
    expect(await faultOf(bomb, issuer.did, size)).toMatch(
      /^too_large: its lst unpacks to more than 4194304 bytes/,
    );
  });

  it('keeps no more memory than its entries', async () => {
    const { bits } = await read(pack(deflateSync(Buffer.alloc(100))));
    expect([bits.length, bits.buffer.byteLength]).toEqual([100, 100]);
  });

  it('is no JSON, no credential and no text', async () => {
    for (const text of ['', '{}', 'a.b.c', await toJwt(credentialWith([7]), newIssuer())])
      expect(await faultOf(text)).toMatch(/^malformed/);
  });
});

describe('an issuer with a key of P-256', () => {
  it('signs a credential, too', async () => {
    const { did, alg, privateKey } = ISSUERS.ES256;
    const credential = credentialWith([7], { issuer: did });
    const jwt = await toJwt(credential, { did, method: '', privateKey }, { alg });
    const options = { form: 'credential' as const, id: LIST_ID, nowMs: NOW };
    const list = await readStatusList(Buffer.from(jwt), '', { ...options, issuer: did });
    expect([6, 7].map((index) => valueAt(list, index))).toEqual([0, 1]);
    // Without an issuer, as with one of Ed25519, ES256 says nothing.
    for (const other of [undefined, issuer.did])
      await expect(readStatusList(Buffer.from(jwt), '', { ...options, issuer: other })).rejects.toThrow(
        'its alg is "ES256"',
      );
  });

  it('has a point on the curve', () => {
    // Of the numbers that could be an x, about half are that of a point.
    const dids = Array.from({ length: 32 }, (_, at) => {
      const point = Buffer.concat([Buffer.of(0x80, 0x24, 2), Buffer.alloc(32, at + 1)]);
      return `did:key:z${base58.encode(point)}`;
    });
    const faults = dids.map((did) => {
      try {
        return resolveIssuer(did, DEFAULT_KEYS).p256 === null;
      } catch (error) {
        return (error as Error).message.includes('is not a did:key');
      }
    });
    expect(new Set(faults)).toEqual(new Set([false, true]));
    expect(() => resolveIssuer('did:web:x', DEFAULT_KEYS)).toThrow('is not a did:key');
  });
});
