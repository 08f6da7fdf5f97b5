import { base58 } from '@scure/base';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeBase58, encodeBase58 } from '../../src/protocol/base58.js';

it('writes and reads the digits that another implementation does', () => {
  const bytes = fc.tuple(fc.nat(4), fc.uint8Array({ maxLength: 70 }));
  fc.assert(
    fc.property(bytes, ([zeros, rest]) => {
      const value = Uint8Array.of(...Array<number>(zeros).fill(0), ...rest);
      const text = encodeBase58(value);
      expect(text).toBe(base58.encode(value));
      expect(decodeBase58(text)).toEqual(value);
    }),
    { numRuns: 300 },
  );
});

it('carries through every limb', () => {
  for (let length = 0; length < 70; length++) {
    for (const value of [new Uint8Array(length).fill(255), Uint8Array.of(1, ...new Uint8Array(length))])
      expect(decodeBase58(base58.encode(value))).toEqual(value);
    for (const text of ['z'.repeat(length), `2${'1'.repeat(length)}`])
      expect(decodeBase58(text)).toEqual(base58.decode(text));
  }
});

it('takes the 58 digits, and nothing else', () => {
  const digits = new Set('123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz');
  for (let code = 0; code < 0x300; code++) {
    const character = String.fromCharCode(code);
    expect(decodeBase58(`z${character}z`) !== null).toBe(digits.has(character));
  }
  expect(decodeBase58('z🫖')).toBeNull();
});
