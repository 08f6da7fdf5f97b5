import { createHash } from 'node:crypto';

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** Strict base64url (docs/spec/encoding.md): no padding, no other characters, unused bits zero. */
export function fromBase64url(text: string): Buffer | undefined {
  const bytes: number[] = [];
  let bits = 0;
  let count = 0;
  for (const character of text) {
    const value = BASE64URL.indexOf(character);
    if (value < 0) return undefined;
    bits = (bits << 6) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push((bits >> count) & 0xff);
      bits &= (1 << count) - 1;
    }
  }
  // Six unused bits are a single extra character. Other unused bits must be zero.
  return count === 6 || bits !== 0 ? undefined : Buffer.from(bytes);
}

export function fromBase58(text: string): Buffer | undefined {
  let number = 0n;
  for (const character of text) {
    const value = BASE58.indexOf(character);
    if (value < 0) return undefined;
    number = number * 58n + BigInt(value);
  }
  const hex = number === 0n ? '' : number.toString(16);
  const zeros = /^1*/.exec(text)?.[0].length ?? 0;
  return Buffer.concat([Buffer.alloc(zeros), Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')]);
}

export function toBase58(bytes: Uint8Array): string {
  let number = BigInt(`0x${Buffer.from(bytes).toString('hex') || '0'}`);
  let text = '';
  for (; number > 0n; number /= 58n) text = (BASE58[Number(number % 58n)] ?? '') + text;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return '1'.repeat(zeros < 0 ? bytes.length : zeros) + text;
}

/** The 32 bytes of an Ed25519 `did:key`; `undefined` for any other DID. */
export function keyOfDid(did: string): Buffer | undefined {
  const prefix = 'did:key:z';
  if (!did.startsWith(prefix)) return undefined;
  const bytes = fromBase58(did.slice(prefix.length));
  if (bytes?.length !== 34 || bytes[0] !== 0xed || bytes[1] !== 0x01) return undefined;
  return bytes.subarray(2);
}

/** The digest by which receipts refer to each other. */
export const digestOf = (jwt: string): string =>
  `sha256:${createHash('sha256').update(jwt, 'utf8').digest('hex')}`;
