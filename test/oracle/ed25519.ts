import { createPublicKey, verify } from 'node:crypto';

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

/** The y coordinates of the eight points of small order, little-endian, reduced. */
const SMALL_ORDER_Y = [
  '0000000000000000000000000000000000000000000000000000000000000000', // order 4
  '0100000000000000000000000000000000000000000000000000000000000000', // order 1
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f', // order 2
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', // order 8
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a', // order 8
].map((hex) => littleEndian(Buffer.from(hex, 'hex')));

/**
 * RFC 8032 without the cofactor, as strict as libsodium's `crypto_sign_verify_detached`: S is below L, and key and R
 * have canonical encodings and no small order.
 */
export function verifyStrictly(key: Buffer, message: Buffer, signature: Buffer): boolean {
  if (key.length !== 32 || signature.length !== 64) return false;
  if (littleEndian(signature.subarray(32)) >= L) return false;
  for (const point of [key, signature.subarray(0, 32)]) {
    const y = littleEndian(point) & ((1n << 255n) - 1n);
    if (y >= P || SMALL_ORDER_Y.includes(y)) return false;
  }
  // A JWK, since OpenSSL reads a DER key ten times as slowly.
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.toString('base64url') };
  const publicKey = createPublicKey({ key: jwk, format: 'jwk' });
  return verify(null, message, publicKey, signature);
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
}
