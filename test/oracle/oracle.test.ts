import sodium from 'sodium-native';
import { describe, expect, test } from 'vitest';
import { parseCompactJwt } from '../../src/protocol/jwt.js';
import { readVectors } from '../support/vectors.js';
import { verifyStrictly } from './ed25519.js';
import { fromBase58, fromBase64url, keyOfDid, toBase58 } from './encoding.js';
import { FORGERIES, forge, KEYS, publicKeyOf, signWith, WEAK_DIDS } from './generator/keys.js';
import { canonical, isFaithfulNumber } from './jcs.js';
import { depthOf, hasDuplicateNames, readJson, writeJson } from './json.js';
import { readJwt } from './jwt.js';

// The oracle is compared with independent implementations: libsodium, the platform, and public vectors.

describe('signatures', () => {
  const accepts = (key: Buffer, message: Buffer, signature: Buffer) =>
    signature.length === 64 && sodium.crypto_sign_verify_detached(signature, message, key);

  test('are checked as libsodium checks them, forged ones too', () => {
    let [valid, invalid] = [0, 0];
    const weak = WEAK_DIDS.map((did) => keyOfDid(did) ?? Buffer.alloc(0));
    for (let round = 0; round < 40; round++) {
      const signed = `message ${round}`;
      const message = Buffer.from(signed);
      const key = round % KEYS;
      for (const signature of [signWith(key, signed), ...FORGERIES.map((kind) => forge(kind, key, signed))])
        for (const publicKey of [publicKeyOf(key), ...weak]) {
          const expected = accepts(publicKey, message, signature);
          expect(verifyStrictly(publicKey, message, signature)).toBe(expected);
          if (expected) valid++;
          else invalid++;
        }
    }
    expect(valid).toBe(40);
    expect(invalid).toBeGreaterThan(1_000);
  });

  test('are checked as Project Wycheproof says', () => {
    const bytes = (text: string) => Buffer.from(text, 'base64url');
    const vectors = readVectors('ed25519');
    for (const { id, key, message, signature, valid } of vectors)
      expect([id, verifyStrictly(bytes(key), bytes(message), bytes(signature))]).toEqual([id, valid]);
    expect(vectors.length).toBeGreaterThan(100);
  });
});

describe('a JWT', () => {
  const jwtOf = (payload: string) => `e30.${Buffer.from(payload).toString('base64url')}.AA`;
  const members = (count: number) => `{${Array.from({ length: count }, (_, at) => `"${at}":1`).join()}}`;

  test.each<[string, string, number | undefined, boolean]>([
    ['2,047 members in an object', members(2_047), 2_048, true],
    ['2,048 members', members(2_048), 2_048, false],
    ['16,383 members', members(16_383), undefined, true],
    ['16,384 members', members(16_384), undefined, false],
    ['32,769 elements', `{"a":[${'0,'.repeat(32_768)}0]}`, 2_048, true],
    ['32,770 elements', `{"a":[${'0,'.repeat(32_769)}0]}`, 2_048, false],
    ['commas in texts', `{"a":"${','.repeat(70_000)}"}`, 2_048, true],
  ])('of %s is read as by the verifier', (_, payload, maxNodes, isRead) => {
    expect(parseCompactJwt(jwtOf(payload), maxNodes).defect === undefined).toBe(isRead);
    expect(readJwt(jwtOf(payload), maxNodes) !== undefined).toBe(isRead);
  });
});

describe('JSON', () => {
  const texts = [
    ...[
      ...['{}', '[]', 'null', ' 1 ', '-0', '1e400', '"\\ud800"', '{"a":1,"a":2}'],
      '{"__proto__":{"a":[1,2.50]}}',
    ],
    ...[
      '01',
      '1.',
      '.5',
      '+1',
      '1e',
      '[1,]',
      '{"a":1,}',
      "{'a':1}",
      '"\u0001"',
      '"\\x"',
      '"\\u12"',
      '\ufeff{}',
      'NaN',
      '',
      '{}x',
    ],
    ...[
      '{"a" :\t[ true,false\r\n,null ] }',
      '"\\u0041\\/\\b"',
      '[[[]]]',
      'tru',
      '{"a"}',
      '{1:2}',
      '\u00a01',
      '"a\u2028b"',
    ],
  ];

  test.each(texts)('reads %j as the platform does', (text) => {
    let expected: unknown;
    try {
      expected = JSON.parse(text);
    } catch {
      expect(readJson(text)).toBeUndefined();
      return;
    }
    const json = readJson(text);
    expect(json && JSON.stringify(JSON.parse(writeJson(json)))).toBe(JSON.stringify(expected));
  });

  test('sees repeated names and depth', () => {
    const read = (text: string) => readJson(text) ?? { kind: 'null' as const };
    expect(hasDuplicateNames(read('[{"a":{"b":1,"\\u0062":1}}]'))).toBe(true);
    expect(hasDuplicateNames(read('[{"a":{"b":1}},{"a":1}]'))).toBe(false);
    expect([depthOf(read('1')), depthOf(read('{}')), depthOf(read('[{"a":[]}]'))]).toEqual([0, 1, 3]);
  });

  test('knows which numbers RFC 8785 writes as themselves', () => {
    const faithful = [
      ...['1E30', '1.10', '333333333.33333329', '9007199254740992', '-0', '1e-400', '0e99999999999'],
      ...['1e23', '1.0'],
    ];
    const others = [
      '9007199254740993',
      '9007199254740993.0',
      '0.9007199254740993e16',
      '-9007199254740993',
      '1e400',
      '1e99999999999999',
    ];
    expect(faithful.filter((text) => !isFaithfulNumber(text))).toEqual([]);
    expect(others.filter(isFaithfulNumber)).toEqual([]);
  });

  test('canonicalizes as the vectors of RFC 8785 do', () => {
    for (const vector of readVectors('jcs')) {
      const json = readJson(vector.json);
      expect([vector.id, json && canonical(json)]).toEqual([vector.id, vector.canonical]);
    }
  });
});

describe('encodings', () => {
  test('base64url is read only where it is written so', () => {
    for (let length = 0; length < 70; length++) {
      const bytes = Buffer.alloc(length, length * 37);
      expect(fromBase64url(bytes.toString('base64url'))).toEqual(bytes);
    }
    for (const text of ['A', 'AB', 'AAB', 'AA==', 'AA A', 'A+/A', 'AAAAA', 'é'])
      expect(fromBase64url(text), text).toBeUndefined();
  });

  test('base58 goes there and back, with its leading zeros', () => {
    for (const hex of ['', '00', '0000ff', 'ed01', 'ff'.repeat(34), '00'.repeat(34)])
      expect(fromBase58(toBase58(Buffer.from(hex, 'hex')))?.toString('hex')).toBe(hex);
    expect(fromBase58('0')).toBeUndefined();
  });
});
