import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MAX_USD, toMicroUsd, toUsd } from '../../src/protocol/money.js';

it.each<[usd: number, down: number, up: number]>([
  [0, 0, 0],
  [-0, 0, 0],
  [1, 1_000_000, 1_000_000],
  [0.1, 100_000, 100_000],
  [0.3, 300_000, 300_000],
  [0.1 + 0.2, 300_000, 300_001],
  [4.35, 4_350_000, 4_350_000],
  [1.1 * 3, 3_300_000, 3_300_001],
  [1e-6, 1, 1],
  [1.5e-6, 1, 2],
  [1.0000001, 1_000_000, 1_000_001],
  [1e-7, 0, 1],
  [1.23e-7, 0, 1],
  [9.99e-7, 0, 1],
  [Number.MIN_VALUE, 0, 1],
  [123_456.789012, 123_456_789_012, 123_456_789_012],
  [999_999_999.999999, 999_999_999_999_999, 999_999_999_999_999],
  [999_999_999.9999999, 999_999_999_999_999, 1_000_000_000_000_000],
  [MAX_USD, 1_000_000_000_000_000, 1_000_000_000_000_000],
])('%s dollars are from %d to %d micro-dollars', (usd, down, up) => {
  expect([toMicroUsd(usd, 'down'), toMicroUsd(usd, 'up')]).toEqual([down, up]);
});

it.each([-1, -1e-9, MAX_USD + 1, 2 ** 53, 1e308, Infinity, NaN])('%s is no amount that is counted', (usd) => {
  expect(() => toMicroUsd(usd, 'up')).toThrow(
    new RangeError(`the amount is ${usd}, expected US dollars from 0 to 1000000000`),
  );
});

it('rounds the decimal number that JSON shows, exactly', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: MAX_USD, noNaN: true }), (usd) => {
      // The same decimal number as a fraction of two integers.
      const [, whole = '', fraction = '', exponent = '0'] =
        /^(\d+)\.?(\d*)(?:e(-\d+))?$/.exec(String(usd)) ?? [];
      const denominator = 10n ** BigInt(fraction.length - Number(exponent));
      const micro = BigInt(whole + fraction) * 1_000_000n;
      const down = micro / denominator;
      const up = down + (micro % denominator === 0n ? 0n : 1n);
      expect([toMicroUsd(usd, 'down'), toMicroUsd(usd, 'up')].map(BigInt)).toEqual([down, up]);
    }),
  );
});

it('is shown in dollars', () => {
  expect([0, 1, 1_500_000, 999_999_999_999_999].map(toUsd)).toEqual([0, 1e-6, 1.5, 999_999_999.999999]);
});
