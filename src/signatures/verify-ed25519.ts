import sodium from 'sodium-native';

// The binding's object has some hundred members and is searched at each use. Its types promise a boolean, but shared
// memory gives undefined.
const verifyDetached: (signature: Buffer, message: Buffer, publicKey: Buffer) => boolean | undefined =
  sodium.crypto_sign_verify_detached;

/** Bytes of an Ed25519 signature. */
export const SIGNATURE_BYTES = 64;

/** Bytes of an Ed25519 public key. */
export const PUBLIC_KEY_BYTES = 32;

/**
 * Verifies one Ed25519 signature, strictly: S below the group order, no small-order or non-canonical key.
 *
 * None of the buffers may lie in a SharedArrayBuffer: sodium-native then answers `undefined`, which counts as false.
 *
 * @param signature 64 bytes; any other length is false (sodium-native itself accepts appended bytes)
 * @param publicKey 32 bytes; any other length is false
 * @see RFC 8032 §5.1.7, libsodium `crypto_sign_verify_detached`
 */
export function verifyEd25519(signature: Buffer, message: Buffer, publicKey: Buffer): boolean {
  if (signature.length !== SIGNATURE_BYTES || publicKey.length !== PUBLIC_KEY_BYTES) return false;
  return verifyDetached(signature, message, publicKey) === true;
}
