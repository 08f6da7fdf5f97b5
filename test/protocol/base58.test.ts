import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeBase58 } from '../../src/protocol/did-key.js';
import { fromBase58, toBase58 } from '../oracle/encoding.js';

// The oracle counts in big integers: it shares no code with the package that decodes.
const read = (text: string) => Buffer.from(decodeBase58(text) ?? []);

it('reads the digits that another implementation writes', () => {
  const bytes = fc.tuple(fc.nat(4), fc.uint8Array({ maxLength: 70 }));
  fc.assert(
    fc.property(bytes, ([zeros, rest]) => {
      const value = Buffer.from([...Array<number>(zeros).fill(0), ...rest]);
      expect(read(toBase58(value))).toEqual(value);
    }),
    { numRuns: 300 },
  );
});

it('carries through every limb', () => {
  for (let length = 0; length < 70; length++) {
    for (const value of [Buffer.alloc(length, 255), Buffer.from([1, ...new Uint8Array(length)])])
      expect(read(toBase58(value))).toEqual(value);
    for (const text of ['z'.repeat(length), `2${'1'.repeat(length)}`])
      expect(read(text)).toEqual(fromBase58(text));
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
