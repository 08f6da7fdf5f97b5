import { concatBytes } from '#platform';
import type { JsonObject } from '../../src/protocol/json.js';
import { MAX_UNPACKED_BYTES, readCredential } from '../../src/revocation/lists/credential.js';

/**
 * Unpacks a status list. Its signature is not checked: what it says is an assumption of the reader.
 *
 * @throws Error that says what is wrong with it
 */
export async function unpackList(credential: JsonObject): Promise<Uint8Array> {
  const { packed } = readCredential(credential);
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
