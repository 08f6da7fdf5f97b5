import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createBundle, createConsent, decodeBundle, encodeBundle } from '../../src/issue/index.js';
import { NOW, refusalOf } from './random-chain.js';

const encode = (text: string) => Buffer.from(text).toString('base64url');

const codeOf = async (header: string) => (await refusalOf(() => decodeBundle(header))).code;

describe('a bundle in a header', () => {
  it('comes back as it was, with and without padding', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.array(fc.string()), (invocation, receipts) => {
        const bundle = createBundle({ receipts, invocation });
        const header = encodeBundle(bundle);
        expect(header).toMatch(/^[\w-]+$/);
        expect(decodeBundle(header)).toEqual(bundle);
        expect(decodeBundle(header.padEnd(Math.ceil(header.length / 4) * 4, '='))).toEqual(bundle);
      }),
    );
  });

  it('leaves out what is not of a bundle', () => {
    const wide = { ...createBundle({ receipts: ['r'], invocation: 'i' }), body: { secret: 1 } };
    expect(decodeBundle(encodeBundle(wide))).toEqual({
      bundle_version: '4.0',
      invocation: 'i',
      receipts: ['r'],
    });
  });

  it('with any other character is not decoded', async () => {
    const header = encodeBundle(createBundle({ receipts: ['receipt'], invocation: 'invocation' }));
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: header.length }),
        fc.constantFrom(' ', '\n', '+', '/', '=', ',', '.', 'é', '\u0000'),
        async (at, character) => {
          // The one place for a character of padding is the end, if the length calls for it.
          fc.pre(character !== '=' || at < header.length || (header.length + 1) % 4 !== 0);
          expect(await codeOf(header.slice(0, at) + character + header.slice(at))).toBe('INVALID_BASE64URL');
        },
      ),
    );
  });

  const cases: [string, string, string][] = [
    ['too much padding', 'e30==', 'INVALID_BASE64URL'],
    ['a group of padding', 'e30=====', 'INVALID_BASE64URL'],
    ['too little padding', 'e3t9fQ=', 'INVALID_BASE64URL'],
    ['a length of 4n + 1', 'aaaaa', 'INVALID_BASE64URL'],
    ['two headers joined', `${encode('{}')}, ${encode('{}')}`, 'INVALID_BASE64URL'],
    ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]).toString('base64url'), 'INVALID_JSON'],
    ['what is not JSON', encode('{'), 'INVALID_JSON'],
    ['a name twice', encode('{"receipts":[],"receipts":["x"]}'), 'INVALID_JSON'],
    ['an array', encode('[]'), 'MALFORMED_BUNDLE'],
    ['no version', encode('{"invocation":"i","receipts":[]}'), 'MALFORMED_BUNDLE'],
    ['no invocation', encode('{"bundle_version":"4.0","receipts":[]}'), 'MALFORMED_BUNDLE'],
    [
      'a number as receipt',
      encode('{"bundle_version":"","invocation":"","receipts":[1]}'),
      'MALFORMED_BUNDLE',
    ],
  ];
  it.each(cases)('that holds %s is refused', async (_, header, code) => {
    expect(await codeOf(header)).toBe(code);
  });
});

it('a consent record holds the digest of the text and the time', () => {
  const consent = createConsent({
    text: 'abc',
    locale: 'de-CH',
    method: 'explicit-ui-click',
    sessionId: 's',
    now: NOW,
  });
  expect(consent).toEqual({
    locale: 'de-CH',
    method: 'explicit-ui-click',
    // FIPS 180-2 appendix B.1.
    policy_hash: 'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    session_id: 's',
    timestamp: '2030-03-17T17:46:40.000Z',
  });
});
