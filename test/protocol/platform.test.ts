import fc from 'fast-check';
import { expect, it } from 'vitest';
import * as node from '../../src/protocol/platform-node.js';
import * as web from '../../src/protocol/platform-web.js';

const bytes = fc.uint8Array({ maxLength: 70 });
const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 70 }), fc.string({ maxLength: 70 }));
/** Texts that are nearly base64: of its alphabets, padding, white space and characters whose low byte is a letter. */
const encoded = fc.string({ unit: fc.constantFrom(...Array.from('ABZaz059-_+/= \nšġA')), maxLength: 12 });
const plain = (value: Uint8Array | null) => (value === null ? null : [...value]);

it('has the same functions for the web as for Node', () => {
  expect(Object.keys(web).sort()).toEqual(Object.keys(node).sort());
});

it('decodes the same texts to the same bytes', () => {
  fc.assert(
    fc.property(fc.oneof(encoded, text, bytes.map(node.encodeBase64url)), (value) => {
      expect(plain(web.decodeBase64url(value))).toEqual(plain(node.decodeBase64url(value)));
      expect(plain(web.decodeBase64(value))).toEqual(plain(node.decodeBase64(value)));
    }),
    { numRuns: 3000 },
  );
});

it('encodes the same bytes to the same text', () => {
  fc.assert(
    fc.property(fc.oneof(bytes, text.map(node.encodeUtf8)), (value) => {
      expect(web.encodeBase64url(value)).toBe(node.encodeBase64url(value));
      expect(web.encodeBase64(value)).toBe(node.encodeBase64(value));
      expect(web.decodeUtf8(value)).toBe(node.decodeUtf8(Buffer.from(value)));
    }),
  );
  const long = new Uint8Array(100_000).fill(0xab);
  expect(web.encodeBase64url(long)).toBe(node.encodeBase64url(long));
});

it('reads, measures, hashes and joins texts alike', () => {
  const surrogates = fc.string({ unit: fc.constantFrom('\ud800', '\udc00', 'a', '\ufeff'), maxLength: 5 });
  fc.assert(
    fc.property(fc.oneof(text, surrogates), (value) => {
      expect(plain(web.encodeUtf8(value))).toEqual(plain(node.encodeUtf8(value)));
      expect(web.utf8Length(value)).toBe(node.utf8Length(value));
      expect(web.sha256Hex(value)).toBe(node.sha256Hex(value));
    }),
  );
  const chunks = [Uint8Array.of(1, 2), Uint8Array.of(), Uint8Array.of(3)];
  expect(plain(web.concatBytes(chunks, 3))).toEqual(plain(node.concatBytes(chunks, 3)));
  expect(web.detachText('abc')).toBe(node.detachText('abc'));
});
