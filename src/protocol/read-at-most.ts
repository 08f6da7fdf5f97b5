import { concatBytes, type Bytes } from '#platform';

/** Reads chunks to their end; `null` as soon as there are more bytes than a limit. */
export async function readAtMost(
  chunks: AsyncIterable<Uint8Array> | readonly [],
  maxBytes: number,
): Promise<Bytes | null> {
  const read: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop cancels a stream.
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    if (size > maxBytes) return null;
    read.push(chunk);
  }
  return concatBytes(read, size);
}
