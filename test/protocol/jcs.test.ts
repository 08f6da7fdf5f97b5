import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toJcs } from '../../src/protocol/jcs.js';
import { equalsByJcs, type JsonValue } from '../../src/protocol/json.js';
import { readVectors } from '../support/vectors.js';

describe('JCS', () => {
  it.each(['\ud800', ['x\udfff'], { '\ud800': 1 }])('refuses a lone surrogate: %j', (value) => {
    const message = 'the value has no RFC 8785 form: it is undefined or holds a lone surrogate';
    expect(() => toJcs(value as JsonValue)).toThrow(new RangeError(message));
  });

  it.each([
    [NaN, /no RFC 8785 form: NaN/],
    [Infinity, /no RFC 8785 form: Infinity/],
    [undefined, /no RFC 8785 form: it is undefined/],
  ])('refuses %s', (value, message) => {
    const write = () => toJcs(value as unknown as JsonValue);
    expect(write).toThrow(RangeError);
    expect(write).toThrow(message);
  });

  it('says what the writer of canonical JSON said', () => {
    const cause = expect.objectContaining({ message: 'NaN is not allowed' }) as Error;
    expect(() => toJcs(NaN)).toThrow(expect.objectContaining({ cause }));
  });

  it.each([
    ['{"__proto__":{}}', '{"a":1}'],
    ['{"constructor":1}', '{"a":1}'],
    ['{"a":1}', '{"b":1}'],
  ])('finds %s and %s different', (left, right) => {
    expect(equalsByJcs(JSON.parse(left) as JsonValue, JSON.parse(right) as JsonValue)).toBe(false);
  });

  it('keeps an escaped backslash before what looks like a surrogate', () => {
    expect(toJcs('\\ud800')).toBe('"\\\\ud800"');
  });

  it('finds two values equal exactly where their canonical forms are', () => {
    const small = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom<JsonValue>(null, true, false, 0, -0, 1, 1.5, '', 'a', '1'),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('a', 'b', '1', '__proto__', 'constructor'), tie('value'), {
          maxKeys: 3,
        }),
      ),
    })).value;
    fc.assert(
      fc.property(small, small, (left, right) => {
        expect(equalsByJcs(left, right)).toBe(toJcs(left) === toJcs(right));
        expect(equalsByJcs(left, JSON.parse(JSON.stringify(left)) as JsonValue)).toBe(true);
      }),
      { numRuns: 5000 },
    );
  });
});

describe('RFC 8785 vectors', () => {
  const bytes = Buffer.alloc(8);
  const doubleOf = (bits: string) => {
    bytes.writeBigUInt64BE(BigInt(`0x${bits}`));
    return bytes.readDoubleBE();
  };
  const numbers = readVectors('jcs-numbers');

  it.each(readVectors('jcs'))('canonicalises document $id', ({ json, canonical }) => {
    expect(toJcs(JSON.parse(json) as JsonValue)).toBe(canonical);
  });

  it.each(numbers)('writes the double $bits as $canonical', ({ bits, canonical }) => {
    if (canonical === null) expect(() => toJcs(doubleOf(bits))).toThrow(RangeError);
    else expect(toJcs(doubleOf(bits))).toBe(canonical);
  });

  // The published digests are of lines of bits and canonical form; the sequence of doubles is made here.
  it.each([
    [1_000, 'be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687'],
    [10_000, 'b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892'],
    [100_000, '22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7'],
  ])('writes the first %i doubles of a long sequence as published', (count, digest) => {
    const seeds = numbers.filter(({ seed }) => seed).map(({ bits }) => doubleOf(bits));
    const hash = createHash('sha256');
    let left = count;
    for (const double of es6Numbers(seeds)) {
      if (left-- === 0) break;
      bytes.writeDoubleBE(double);
      hash.update(`${bytes.readBigUInt64BE().toString(16)},${toJcs(double)}\n`);
    }
    expect(hash.digest('hex')).toBe(digest);
  });
});

/**
 * The endless sequence of doubles that the authors of RFC 8785 publish digests of: some chosen ones, the 2,000 smallest
 * normal ones, then those that repeated SHA-256, starting with 32 zero bytes, spells.
 */
function* es6Numbers(seeds: readonly number[]): Generator<number> {
  yield* seeds;
  const bytes = Buffer.alloc(8);
  for (let at = 0; at < 2000; at++) {
    bytes.writeBigUInt64BE(0x0010000000000000n + BigInt(at));
    yield bytes.readDoubleBE();
  }
  for (let block = Buffer.alloc(32); ;) {
    block = createHash('sha256').update(block).digest();
    for (let at = 0; at < 32; at += 8) {
      const double = block.readDoubleLE(at);
      if (double !== 0 && Number.isFinite(double)) yield double;
    }
  }
}
