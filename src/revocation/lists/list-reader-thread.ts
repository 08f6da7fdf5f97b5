import { parentPort, workerData } from 'node:worker_threads';
import { bufferOver, transferable, type ListAnswer, type ListTask } from './list-reader.js';
import { readStatusList } from './read-status-list.js';
import { StatusListError } from './status-list-error.js';

const { body, contentType, options } = workerData as ListTask;
try {
  const list = await readStatusList(bufferOver(body), contentType, options);
  parentPort?.postMessage({ list } satisfies ListAnswer, transferable(list.bits));
} catch (error) {
  // Any other error ends the thread, and the parent gets an `error` event.
  if (!(error instanceof StatusListError)) throw error;
  parentPort?.postMessage({ fault: error.fault, message: error.message } satisfies ListAnswer);
}
