declare module 'libsodium' {
  /** libsodium as WebAssembly. Pointers and lengths are numbers; a length is two of them, the lower half first. */
  interface Libsodium {
    readonly HEAPU8: Uint8Array;
    _malloc(bytes: number): number;
    _free(at: number): void;
    _sodium_init(): number;
    _crypto_sign_keypair(publicKey: number, privateKey: number): number;
    _crypto_sign_detached(
      signature: number,
      signatureLength: null,
      message: number,
      length: number,
      lengthHigh: number,
      privateKey: number,
    ): number;
    _crypto_sign_verify_detached(
      signature: number,
      message: number,
      length: number,
      lengthHigh: number,
      publicKey: number,
    ): number;
  }
  export default function load(options: { getRandomValue: () => number }): Promise<Libsodium>;
}
