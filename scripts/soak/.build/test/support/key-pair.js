import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
/**
 * A new Ed25519 key pair, and the 32 bytes of its public key.
 *
 * Key objects straight from `generateKeyPairSync` share a lock with the job that made them: when Node 20 collects that job
 * during `export({ format: 'jwk' })`, it waits for itself for ever. These are made from encoded keys, so they have no job.
 */
export function newKeyPair() {
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
