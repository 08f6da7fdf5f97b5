import { gunzip, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import { decodeBase64url, encodeBase64url } from '#platform';
import { StatusListError } from './status-list-error.js';

/** Maximum size of an unpacked list in bytes. */
export const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;

const gunzipAsync = promisify(gunzip);
const gzipAsync = promisify(gzip);

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
 * Unpacks the `encodedList` of a status list.
 *
 * @param encodedList `u` (multibase base64url) and GZIP; or the older form without `u`, in base64url or base64. The
 *   older form never begins with `u`, because GZIP data begins with `H4sI`
 * @param maxBytes at most {@link MAX_UNPACKED_BYTES}
 * @throws {@link StatusListError} `malformed`; `too_large` as soon as unpacking exceeds `maxBytes`
 * @see W3C Bitstring Status List §3.3, RFC 1952
 * @example await unpackBits('uH4sIAAAAAAAAA-3BMQEAAADCoPVPbQwfoAAAAAAAAAAAAAAAAAAAAIC3AYbSVKsAQAAA'); // 16 KiB of zeros
 */
export async function unpackBits(encodedList: string, maxBytes = MAX_UNPACKED_BYTES): Promise<Buffer> {
  const packed = encodedList.startsWith('u')
    ? decodeBase64url(encodedList.slice(1))
    : decodeBase64url(
        encodedList
          .replace(/={1,2}$/, '')
          .replaceAll('+', '-')
          .replaceAll('/', '_'),
      );
  if (packed === null) {
    throw new StatusListError('malformed', 'its encodedList is not base64url, expected "u" and base64url');
  }
  try {
    return await gunzipAsync(packed, { maxOutputLength: maxBytes, chunkSize: 256 * 1024 });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw code === 'ERR_BUFFER_TOO_LARGE'
      ? new StatusListError('too_large', `its encodedList unpacks to more than ${maxBytes} bytes`)
      : new StatusListError('malformed', `its encodedList is not whole GZIP data: ${message}`);
  }
}

/**
 * Packs a bitstring as an `encodedList`: `u`, base64url, GZIP.
 *
 * @see W3C Bitstring Status List §3.3
 * @example await packBits(Buffer.alloc(16_384)); // 'uH4sI…'
 */
export async function packBits(bits: Uint8Array): Promise<string> {
  return `u${encodeBase64url(await gzipAsync(bits))}`;
}
