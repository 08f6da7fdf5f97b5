import { createPublicKey, verify as verifyWithNode } from 'node:crypto';
import { CHECKS, LEAVES_OUT, verifierWith } from './shared/blocks.mjs';

export const checks = `${CHECKS}; signatures by node:crypto`;
export const leavesOut = `${LEAVES_OUT}; with Node 20 it accepts signatures that must be refused (suite engines)`;
export const verify = verifierWith(
  (bytes) => {
    const key = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') };
    return createPublicKey({ key, format: 'jwk' });
  },
  (jwt, key) => {
    const end = jwt.lastIndexOf('.');
    const signature = Buffer.from(jwt.slice(end + 1), 'base64url');
    return verifyWithNode(null, Buffer.from(jwt.slice(0, end)), key, signature);
  },
);
