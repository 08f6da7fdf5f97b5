// base58btc, for keys in `did:key` and for proofs: own code, since pages carry it, and a library of it is five times as
// large. Base 2^24 and base 58^4 stand between bytes and digits: the product of both is exact in a double.

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const DIGITS: ReadonlyMap<string, number> = new Map(Array.from(ALPHABET, (digit, value) => [digit, value]));

/**
 * The base58btc digits of bytes. Takes time by the square of their number: for keys and signatures, not for texts.
 *
 * @see draft-msporny-base58-03 §3
 * @example encodeBase58(Uint8Array.of(0, 255)); // '15Q'
 */
export function encodeBase58(bytes: Uint8Array): string {
  let text = '';
  for (const digit of convert(bytes, 256, 3, 58, 4)) text += ALPHABET.charAt(digit);
  return text;
}

/**
 * The bytes of base58btc digits. Takes time by the square of their number: the caller limits it.
 *
 * @returns `null` if a character is no digit
 * @see draft-msporny-base58-03 §4
 * @example decodeBase58('15Q'); // 0, 255
 */
export function decodeBase58(text: string): Uint8Array | null {
  const digits: number[] = [];
  for (const character of text) {
    const digit = DIGITS.get(character);
    if (digit === undefined) return null;
    digits.push(digit);
  }
  return new Uint8Array(convert(digits, 58, 4, 256, 3));
}

/**
 * Writes a number in another base, with as many zeros before it.
 *
 * @param digits to base `from`, the most significant first, of which `take` are read at a time
 * @param to the other base, of which `give` digits are kept in one limb
 */
function convert(digits: ArrayLike<number>, from: number, take: number, to: number, give: number): number[] {
  const [scale, limit] = [from ** take, to ** give];
  // The least significant first.
  const limbs: number[] = [];
  // If one group is shorter, it is the first.
  for (let at = 0, end = digits.length % take || take; at < digits.length; end += take) {
    let carry = 0;
    for (; at < end; at++) carry = carry * from + (digits[at] as number);
    for (let place = 0; place < limbs.length; place++) {
      const sum = (limbs[place] as number) * scale + carry;
      carry = Math.floor(sum / limit);
      limbs[place] = sum - carry * limit;
    }
    for (; carry > 0; carry = Math.floor(carry / limit)) limbs.push(carry % limit);
  }
  const result: number[] = [];
  for (let limb of limbs) {
    for (let place = 0; place < give; place++, limb = Math.floor(limb / to)) result.push(limb % to);
  }
  while (result.at(-1) === 0) result.pop();
  for (let at = 0; digits[at] === 0; at++) result.push(0);
  return result.reverse();
}
