import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import sodium from 'sodium-native';

/**
 * A new Ed25519 key pair, and the 32 bytes of its public key.
 *
 * Key objects that come directly from `generateKeyPairSync` share a lock with the job that made them. If Node 20
 * collects that job during `export({ format: 'jwk' })`, it deadlocks. The keys here are made from encoded keys, without
 * such a job, and as JWKs: OpenSSL reads a DER key ten times as slowly.
 */
export function newKeyPair(): { publicKey: KeyObject; privateKey: KeyObject; bytes: Buffer } {
  const [bytes, secret] = [Buffer.alloc(32), Buffer.alloc(64)];
  sodium.crypto_sign_keypair(bytes, secret);
  // The secret key of libsodium is the seed and the public key.
  const d = secret.toString('base64url', 0, 32);
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') };
  return {
    publicKey: createPublicKey({ key: jwk, format: 'jwk' }),
    privateKey: createPrivateKey({ key: { ...jwk, d }, format: 'jwk' }),
    bytes,
  };
}
