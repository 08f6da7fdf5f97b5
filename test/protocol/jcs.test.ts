import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { equalsByJcs, toJcs } from '../../src/protocol/jcs.js';
import type { JsonValue } from '../../src/protocol/json.js';
import { hasVectors, vectorPath } from '../support/vectors.js';

describe('JCS', () => {
  it.each(['\ud800', ['x\udfff'], { '\ud800': 1 }])('refuses a lone surrogate: %j', (value) => {
    expect(() => toJcs(value as JsonValue)).toThrow(RangeError);
  });

  it.each([NaN, Infinity, undefined])('refuses %s', (value) => {
    expect(() => toJcs(value as unknown as JsonValue)).toThrow(RangeError);
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

describe.skipIf(!hasVectors)('RFC 8785 vectors (shared/vectors/04-jcs-rfc8785)', () => {
  const inputs = hasVectors ? readdirSync(vectorPath('04-jcs-rfc8785', 'input')) : [];
  it.each(inputs)('canonicalises %s', (file) => {
    const input = JSON.parse(readFileSync(vectorPath('04-jcs-rfc8785', 'input', file), 'utf8')) as JsonValue;
    expect(toJcs(input)).toBe(readFileSync(vectorPath('04-jcs-rfc8785', 'output', file), 'utf8').trimEnd());
  });

  it('writes 10,000 numbers as ECMAScript does', () => {
    const lines = readFileSync(vectorPath('04-jcs-rfc8785', 'es6testfile10k.txt'), 'utf8')
      .trimEnd()
      .split('\n');
    expect(lines.length).toBe(10_000);
    const bytes = Buffer.alloc(8);
    for (const line of lines) {
      const [bits = '', expected] = line.split(',');
      bytes.writeBigUInt64BE(BigInt(`0x${bits}`));
      expect(toJcs(bytes.readDoubleBE())).toBe(expected);
    }
  });
});
