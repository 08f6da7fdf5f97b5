/**
 * The bytes of a value that other code has made: of a `Uint8Array`, or of an `ArrayBuffer`, as WebCrypto gives it. Of any
 * realm: where tests run in a `vm` (Jest), both have other constructors, and `instanceof` says no.
 *
 * @returns `null` if it is something else
 */
export function bytesIn(value: unknown): Uint8Array | null {
  const name = Object.prototype.toString.call(value);
  if (name === '[object ArrayBuffer]') return new Uint8Array(value as ArrayBuffer);
  return ArrayBuffer.isView(value) && name === '[object Uint8Array]' ? (value as Uint8Array) : null;
}
