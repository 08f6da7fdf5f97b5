import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { MAX_UNPACKED_BYTES } from './credential.js';
import { malformed, StatusListError } from './status-list-error.js';

const gunzipAsync = promisify(gunzip);

/**
 * Whether the bit of an entry is set. Bit 0 is the most significant bit of byte 0.
 *
 * @param index less than `8 * bits.length`
 * @see W3C Bitstring Status List §3.2
 * @example isBitSet(Buffer.from([0b0100_0000]), 1); // true
 */
export function isBitSet(bits: Uint8Array, index: number): boolean {
  return ((bits[index >>> 3] ?? 0) & (0x80 >>> (index & 7))) !== 0;
}

/**
 * Unpacks the bits of a status list, on a thread of libuv.
 *
 * @param packed GZIP data
 * @throws {@link StatusListError} `malformed`; `too_large` as soon as there are more than {@link MAX_UNPACKED_BYTES}
 * @see W3C Bitstring Status List §3.3, RFC 1952
 */
export async function unpackBits(packed: Uint8Array): Promise<Buffer> {
  try {
    return await gunzipAsync(packed, { maxOutputLength: MAX_UNPACKED_BYTES, chunkSize: 256 * 1024 });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ERR_BUFFER_TOO_LARGE')
      throw malformed(`its encodedList is not whole GZIP data: ${message}`);
    throw new StatusListError(
      'too_large',
      `its encodedList unpacks to more than ${MAX_UNPACKED_BYTES} bytes: make a list with at most ${MAX_UNPACKED_BYTES * 8} entries`,
    );
  }
}
