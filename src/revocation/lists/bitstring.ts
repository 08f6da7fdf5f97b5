import { promisify } from 'node:util';
import { gunzip, inflate } from 'node:zlib';
import { MAX_UNPACKED_BYTES } from './credential.js';
import { malformed, StatusListError } from './status-list-error.js';

/** The entries of a list, unpacked. */
export interface ListEntries {
  readonly bits: Buffer;
  /** How many bits an entry of a Token Status List has; `null`: it is a bitstring of the W3C. */
  readonly tokenBits: number | null;
}

const gunzipAsync = promisify(gunzip);
const inflateAsync = promisify(inflate);

interface Inflated {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

export function countOf({ bits, tokenBits }: ListEntries): number {
  return (bits.length * 8) / (tokenBits ?? 1);
}

/**
 * The value of an entry. Bit 0 of a bitstring is the most significant bit of byte 0; the first entry of a token is in the least
 * significant ones.
 *
 * @param index less than {@link countOf}
 * @see W3C Bitstring Status List §3.2, draft-ietf-oauth-status-list-21 §4.1
 * @example valueAt({ bits: Buffer.from([0b0100_0000]), tokenBits: null }, 1); // 1
 */
export function valueAt({ bits, tokenBits }: ListEntries, index: number): number {
  const perByte = 8 / (tokenBits ?? 1);
  const byte = bits[Math.floor(index / perByte)] ?? 0;
  const at = index % perByte;
  return tokenBits === null ? (byte >> (7 - at)) & 1 : (byte >> (at * tokenBits)) & (2 ** tokenBits - 1);
}

/**
 * Unpacks the bits of a status list, on a thread of libuv.
 *
 * @param packed GZIP data
 * @throws {@link StatusListError} `malformed`; `too_large` as soon as there are more than `maxBytes`
 * @see W3C Bitstring Status List §3.3, RFC 1952
 */
export async function unpackBits(packed: Uint8Array, maxBytes = MAX_UNPACKED_BYTES): Promise<Buffer> {
  return exact(await orFault(gunzipAsync(packed, limitTo(maxBytes)), 'encodedList', 'GZIP', maxBytes));
}

/**
 * The same for a Token Status List.
 *
 * @param packed ZLIB data with nothing behind it
 * @see draft-ietf-oauth-status-list-21 §4.1, RFC 1950
 */
export async function inflateBits(packed: Uint8Array, maxBytes: number): Promise<Buffer> {
  const inflating = inflateAsync(packed, { ...limitTo(maxBytes), info: true });
  // With `info`, `zlib` tells how much it has read, too; its types do not say so.
  const { buffer, engine } = (await orFault(inflating, 'lst', 'ZLIB', maxBytes)) as unknown as Inflated;
  if (engine.bytesWritten !== packed.length) throw malformed('its lst has something behind its ZLIB data');
  return exact(buffer);
}

const limitTo = (maxOutputLength: number) => ({ maxOutputLength, chunkSize: 256 * 1024 });

/** A buffer that keeps no more alive than it has: of a short one, `zlib` hands out a part of a larger one. */
function exact(bits: Buffer): Buffer {
  if (bits.buffer.byteLength === bits.length) return bits;
  const own = Buffer.allocUnsafeSlow(bits.length);
  bits.copy(own);
  return own;
}

async function orFault<T>(
  unpacking: Promise<T>,
  member: string,
  format: string,
  maxBytes: number,
): Promise<T> {
  try {
    return await unpacking;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ERR_BUFFER_TOO_LARGE')
      throw malformed(`its ${member} is not whole ${format} data: ${message}`);
    throw new StatusListError(
      'too_large',
      `its ${member} unpacks to more than ${maxBytes} bytes: make a list with at most ${maxBytes * 8} entries`,
    );
  }
}
