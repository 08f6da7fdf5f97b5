import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';

/**
 * A new Ed25519 key pair, and the 32 bytes of its public key.
 *
 * Key objects that come directly from `generateKeyPairSync` share a lock with the job that made them. If Node 20
 * collects that job during `export({ format: 'jwk' })`, it deadlocks. The keys here are made from encoded keys, without
 * such a job.
 */
export function newKeyPair(): { publicKey: KeyObject; privateKey: KeyObject; bytes: Buffer } {
  const { publicKey: spki, privateKey: pkcs8 } = generateKeyPairSync('ed25519', {
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'der' },
  });
  return {
    publicKey: createPublicKey({ key: spki, type: 'spki', format: 'der' }),
    privateKey: createPrivateKey({ key: pkcs8, type: 'pkcs8', format: 'der' }),
    bytes: spki.subarray(-32),
  };
}
