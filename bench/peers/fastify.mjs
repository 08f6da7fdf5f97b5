import sodium from 'sodium-native';
import { CHECKS, LEAVES_OUT, verifierWith } from './shared/blocks.mjs';

export const checks = `${CHECKS}; signatures by libsodium`;
export const leavesOut = LEAVES_OUT;
export const verify = verifierWith(
  (bytes) => bytes,
  (jwt, key) => {
    const end = jwt.lastIndexOf('.');
    const signature = Buffer.from(jwt.slice(end + 1), 'base64url');
    if (signature.length !== sodium.crypto_sign_BYTES) return false;
    return sodium.crypto_sign_verify_detached(signature, Buffer.from(jwt.slice(0, end)), key);
  },
);
