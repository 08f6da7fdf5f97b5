import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeBase64url, encodeBase64url } from '#platform';
import { digestOf, ISSUED_HEADER, parseCompactJwt } from '../../src/protocol/jwt.js';
import { makeBundle, sha256 } from '../support/chain.js';

const segment = (text: string | Buffer) => Buffer.from(text).toString('base64url');
const SIGNATURE = segment(Buffer.alloc(64, 1));
const defectOf = (jwt: string) => parseCompactJwt(jwt).defect ?? 'none';
const jwt = (header: string | Buffer, payload: string | Buffer) =>
  `${segment(header)}.${segment(payload)}.${SIGNATURE}`;
const EDDSA = '{"alg":"EdDSA"}';

describe('strict base64url', () => {
  it('gives back what it encoded', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(decodeBase64url(encodeBase64url(bytes))).toEqual(Buffer.from(bytes));
      }),
    );
  });

  it.each(['aG k', 'aGk\n', 'aG\0k', ...'aGk= aGl a a+b_ a/b_ aGké \u0161Gk . \ud800 A=='.split(' ')])(
    'refuses %j',
    (text) => expect(decodeBase64url(text)).toBeNull(),
  );

  it('takes only the text that its bytes have, whatever ends it', () => {
    const alphabet = Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_');
    const pairs = alphabet.flatMap((one) => alphabet.map((other) => one + other));
    const texts = [
      '',
      ...alphabet,
      ...pairs,
      ...pairs.flatMap((pair) => alphabet.map((last) => pair + last)),
    ];
    const isStrict = (text: string) => Buffer.from(text, 'base64url').toString('base64url') === text;
    const differing = texts.filter((text) => (decodeBase64url(text) !== null) !== isStrict(text));
    expect(differing).toEqual([]);
  });
});

describe('compact JWT', () => {
  it('takes an issued receipt apart', () => {
    const receipt = makeBundle(1).receipts[0] as string;
    const parts = parseCompactJwt(receipt);
    if (parts.defect !== undefined) throw new Error(parts.defect);
    expect(parts.algorithm).toBe('EdDSA');
    expect(parts.payload['drs_type']).toBe('delegation-receipt');
    expect(parts.signature).toHaveLength(64);
    expect(receipt.slice(0, parts.signingInputLength)).toBe(receipt.split('.').slice(0, 2).join('.'));
    expect(digestOf(receipt)).toBe(sha256(receipt));
  });

  it.each([
    ['', /1 segments/],
    ['a.b', /2 segments/],
    ['a.b.c.d', /4 segments/],
    [`.${segment('{}')}.${SIGNATURE}`, /header is empty/],
    [`${segment(EDDSA)}..${SIGNATURE}`, /payload is empty/],
    [`${segment(EDDSA)}.${segment('{}')}.`, /signature is empty/],
    [`${segment(EDDSA)}.${segment('{}')}=.${SIGNATURE}`, /payload is not strict base64url/],
    [`${segment(EDDSA)}.${segment('{}')}.${SIGNATURE.slice(0, -1)}B`, /signature is empty or not strict/],
    // The characters of plain base64, which Node would decode to the same bytes: "-" or "_" changed to "+" or "/".
    [
      `${segment(EDDSA)}.${segment('{"a":"~~~"}').replace('-', '+')}.${SIGNATURE}`,
      /payload is not strict base64url/,
    ],
    [
      `${segment(EDDSA)}.${segment('{"a":"???"}').replace('_', '/')}.${SIGNATURE}`,
      /payload is not strict base64url/,
    ],
    [`${segment(EDDSA)}.${segment('{}')}.${'+'.repeat(86)}`, /signature is empty or not strict/],
    // The usual header, and a character more.
    [`${ISSUED_HEADER}${segment('x')}.${segment('{}')}.${SIGNATURE}`, /header is not strict JSON/],
    [jwt('[]', '{}'), /header is not a JSON object/],
    [jwt('{"alg":"EdDSA","crit":["b64"]}', '{}'), /"crit"/],
    [jwt('{"alg":"EdDSA","b64":false}', '{}'), /"b64"/],
    [jwt('{"alg":"EdDSA","alg":"none"}', '{}'), /occurs twice/],
    [jwt(EDDSA, '[]'), /payload is not a JSON object/],
    [jwt(EDDSA, 'null'), /payload is not a JSON object/],
    [jwt(EDDSA, '{"a":1,"\\u0061":1}'), /occurs twice/],
    [jwt(EDDSA, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), /not UTF-8/],
    [jwt(EDDSA, '\ufeff{}'), /not strict JSON/],
    [jwt(EDDSA, '{"a":"\\ud800"}'), /lone surrogate/],
  ])('refuses %j', (text, defect) => {
    expect(defectOf(text)).toMatch(defect);
  });

  it.each([
    ['{"alg":"none"}', 'none'],
    ['{"alg":"Ed25519","kid":"x","typ":"anything"}', 'Ed25519'],
    ['{}', undefined],
    ['{"__proto__":{"alg":"EdDSA"}}', undefined],
  ])('reads the algorithm of %s and nothing more', (header, algorithm) => {
    const parts = parseCompactJwt(jwt(header, '{}'));
    expect(parts.defect === undefined && parts.algorithm).toBe(algorithm);
  });
});
