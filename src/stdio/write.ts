import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Writes, and waits while the reader has not taken what was written before. Does nothing if the stream is closed. */
export async function write(stream: Writable, data: string | Uint8Array): Promise<void> {
  if (!stream.writable || stream.write(data)) return;
  const over = new AbortController();
  const { signal } = over;
  // A stream that fails is closed, too; `once` then rejects.
  await Promise.race([once(stream, 'drain', { signal }), once(stream, 'close', { signal })]).catch(
    () => undefined,
  );
  over.abort();
}
