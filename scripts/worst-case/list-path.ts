import { timed, type Call } from './verify-path.js';

const { readList } = await import('../../src/revocation/list-reader.js');
const { StatusListError } = await import('../../src/revocation/status-list-error.js');

// The reader hands what is longer to a thread of its own, which is not the main thread's time.
const { signal } = new AbortController();

/** Takes the media type and the body of a status list, by lines, as the service does when it has fetched one. */
export function openListPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  return Promise.resolve(
    timed(async (bytes) => {
      const end = bytes.indexOf(10);
      // The body may be gone afterwards.
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
