import { concatBytes, decodeBase64url } from '#platform';
import type { JsonObject } from '../../src/protocol/json.js';
import { readCredential } from '../../src/revocation/lists/credential.js';

/** The most that a list may unpack to: as in revocation/lists/bitstring.ts. */
const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;

/**
 * Unpacks a status list. Its signature is not checked: what it says is an assumption of the reader.
 *
 * @throws Error that says what is wrong with it
 */
export async function unpackList(credential: JsonObject): Promise<Uint8Array> {
  const { encodedList } = readCredential(credential);
  const packed = decodeBase64url(
    encodedList
      .replace(/^u/, '')
      .replace(/={1,2}$/, '')
      .replaceAll('+', '-')
      .replaceAll('/', '_'),
  );
  if (packed === null) throw new Error('its encodedList is not base64url');
  const reader = new Blob([Uint8Array.from(packed)])
    .stream()
    .pipeThrough(new DecompressionStream('gzip'))
    .getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MAX_UNPACKED_BYTES) throw new Error(`it unpacks to more than ${MAX_UNPACKED_BYTES} bytes`);
    chunks.push(value);
  }
  return concatBytes(chunks, size);
}
