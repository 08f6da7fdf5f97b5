import load from 'libsodium';
import type { Sodium } from '../../src/pure/parts.js';
import type { ExampleSodium } from './example.js';

const [SIGNATURE_BYTES, PUBLIC_KEY_BYTES, PRIVATE_KEY_BYTES] = [64, 32, 64];

/**
 * Loads libsodium. `libsodium-wrappers` would do the same with all functions of libsodium, and make the page a fifth
 * larger: this passes bytes to three of them. A test compares it on all vectors.
 */
export async function loadSodium(): Promise<Sodium & ExampleSodium> {
  const lib = await load({ getRandomValue: () => crypto.getRandomValues(new Uint32Array(1))[0] ?? 0 });
  if (lib._sodium_init() < 0) throw new Error('libsodium cannot be used');

  /** Runs a function with copies of bytes in the memory of WebAssembly, and frees them. */
  const withCopies = <T>(copies: readonly Uint8Array[], run: (...at: number[]) => T): T => {
    // At least one byte: of none, malloc may return null.
    const at = copies.map(({ length }) => lib._malloc(Math.max(1, length)));
    try {
      // Asked each time: memory that grows moves.
      copies.forEach((bytes, index) => lib.HEAPU8.set(bytes, at[index]));
      return run(...at);
    } finally {
      at.forEach((pointer) => lib._free(pointer));
    }
  };
  const read = (at: number, length: number) => lib.HEAPU8.slice(at, at + length);

  return {
    crypto_sign_verify_detached: (signature, message, publicKey) =>
      signature.length === SIGNATURE_BYTES &&
      publicKey.length === PUBLIC_KEY_BYTES &&
      withCopies(
        [signature, message, publicKey],
        (...at) =>
          lib._crypto_sign_verify_detached(
            at[0] as number,
            at[1] as number,
            message.length,
            0,
            at[2] as number,
          ) === 0,
      ),
    crypto_sign_keypair: () =>
      withCopies([new Uint8Array(PUBLIC_KEY_BYTES), new Uint8Array(PRIVATE_KEY_BYTES)], (...at) => {
        lib._crypto_sign_keypair(at[0] as number, at[1] as number);
        return {
          publicKey: read(at[0] as number, PUBLIC_KEY_BYTES),
          privateKey: read(at[1] as number, PRIVATE_KEY_BYTES),
        };
      }),
    crypto_sign_detached: (message, privateKey) =>
      withCopies([new Uint8Array(SIGNATURE_BYTES), message, privateKey], (...at) => {
        lib._crypto_sign_detached(at[0] as number, null, at[1] as number, message.length, 0, at[2] as number);
        return read(at[0] as number, SIGNATURE_BYTES);
      }),
  };
}
