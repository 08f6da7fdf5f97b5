import { timed, type Call } from './verify-path.js';

const { readStatusList } = await import('../../src/revocation/lists/read-status-list.js');
const { StatusListError } = await import('../../src/revocation/lists/status-list-error.js');

/** Reads a status list like the service after a fetch. */
export function openListPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  return Promise.resolve(
    timed(async (bytes) => {
      try {
        await readStatusList(bytes, '', { form: 'credential', id: 'any', nowMs: Date.now() });
        return { answer: 'a list', answerBytes: 0 };
      } catch (error) {
        if (!(error instanceof StatusListError)) throw error;
        return { answer: error.fault, answerBytes: error.message.length };
      }
    }),
  );
}
