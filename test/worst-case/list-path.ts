import { timed, type Call } from './verify-path.js';

const { readList } = await import('../../src/revocation/lists/list-reader.js');
const { StatusListError } = await import('../../src/revocation/lists/status-list-error.js');

// Longer lists are read on another thread, whose time is not the main thread's.
const { signal } = new AbortController();

/** Reads the media type and the body of a status list, each on a line, like the service after a fetch. */
export function openListPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  return Promise.resolve(
    timed(async (bytes) => {
      const end = bytes.indexOf(10);
      // A copy, since reading may transfer the memory of the body to a thread.
      const body = Buffer.from(bytes.subarray(end + 1));
      try {
        await readList(body, bytes.toString('latin1', 0, end), { nowMs: Date.now(), signal });
        return { answer: 'a list', answerBytes: 0 };
      } catch (error) {
        if (!(error instanceof StatusListError)) throw error;
        return { answer: error.fault, answerBytes: error.message.length };
      }
    }),
  );
}
