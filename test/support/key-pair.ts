import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';

// As JWK, since OpenSSL takes 0.4 ms to decode a key from DER. The types of Node do not know this encoding.
const ENCODINGS = { publicKeyEncoding: { format: 'jwk' }, privateKeyEncoding: { format: 'jwk' } } as const;
type Encoded = Record<'publicKey' | 'privateKey', JsonWebKey>;

/**
 * A new Ed25519 key pair, and the 32 bytes of its public key.
 *
 * Key objects that come directly from `generateKeyPairSync` share a lock with the job that made them. If Node 20
 * collects that job during `export({ format: 'jwk' })`, it deadlocks. The keys here are made from encoded keys, without
 * such a job.
 */
export function newKeyPair(): { publicKey: KeyObject; privateKey: KeyObject; bytes: Buffer } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519', ENCODINGS) as unknown as Encoded;
  return {
    publicKey: createPublicKey({ key: publicKey, format: 'jwk' }),
    privateKey: createPrivateKey({ key: privateKey, format: 'jwk' }),
    bytes: Buffer.from(publicKey.x ?? '', 'base64url'),
  };
}
