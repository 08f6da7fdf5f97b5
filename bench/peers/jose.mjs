import { compactVerify, importJWK } from 'jose';
import { CHECKS, LEAVES_OUT, verifierWith } from './shared/blocks.mjs';

export const checks = `${CHECKS}; signatures and their headers by jose (WebCrypto)`;
export const leavesOut = `${LEAVES_OUT}; with Node 20 it accepts signatures that must be refused (suite engines)`;
export const verify = verifierWith(
  (bytes) => importJWK({ kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, 'EdDSA'),
  async (jwt, key) => {
    try {
      await compactVerify(jwt, await key);
      return true;
    } catch {
      return false;
    }
  },
);
