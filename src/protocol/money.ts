/** The largest amount in US dollars that is counted: in micro-dollars, even twice as much is below 2^53, and so added exactly. */
export const MAX_USD = 1_000_000_000;

/**
 * An amount in whole micro-dollars, which are counted exactly. The amount is the decimal number that RFC 8785 writes for
 * the double: 0.1 is a tenth, although the double is a little more.
 *
 * @param usd US dollars, from 0 to {@link MAX_USD}
 * @param rounding where a part of a micro-dollar goes: `up` for what is spent, `down` for what may be spent
 * @returns an integer from 0 to 10^15
 * @throws RangeError for any other amount
 * @example toMicroUsd(0.1, 'up'); // 100_000
 * @example toMicroUsd(1e-7, 'up'); // 1
 */
export function toMicroUsd(usd: number, rounding: 'up' | 'down'): number {
  if (!(usd >= 0 && usd <= MAX_USD))
    throw new RangeError(`the amount is ${usd}, expected US dollars from 0 to ${MAX_USD}`);
  const [mantissa, exponent] = String(usd).split('e') as [string, string?];
  const [whole, fraction = ''] = mantissa.split('.') as [string, string?];
  const digits = whole + fraction;
  // In micro-dollars, the amount is `digits` times a power of ten: by so many places the digits move.
  const places = 6 + Number(exponent ?? 0) - fraction.length;
  if (places >= 0) return Number(digits + '0'.repeat(places));
  // The last digit is not 0, so what is cut off is a part of a micro-dollar.
  return Number(digits.slice(0, places)) + (rounding === 'up' ? 1 : 0);
}

/**
 * Micro-dollars as US dollars, for people.
 *
 * @example toUsd(1_500_000); // 1.5
 */
export function toUsd(microUsd: number): number {
  return microUsd / 1_000_000;
}
