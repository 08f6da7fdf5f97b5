import { parentPort, workerData } from 'node:worker_threads';
import { bufferOver, transferable } from './list-reader.js';
import { readStatusList, type ReadOptions, type StatusList } from './read-status-list.js';
import { StatusListError, type StatusListFault } from './status-list-error.js';

/** The input of the thread. */
export interface ListTask {
  readonly body: Uint8Array;
  readonly contentType: string;
  readonly options: ReadOptions;
}

/** The answer of the thread. An error is sent as its parts, since its class and fields would be lost. */
export type ListAnswer =
  | { readonly list: Omit<StatusList, 'bits'> & { readonly bits: Uint8Array } }
  | { readonly list?: never; readonly fault: StatusListFault; readonly message: string };

const { body, contentType, options } = workerData as ListTask;
try {
  const list = await readStatusList(bufferOver(body), contentType, options);
  parentPort?.postMessage({ list } satisfies ListAnswer, transferable(list.bits));
} catch (error) {
  // Any other error ends the thread, and the parent gets an `error` event.
  if (!(error instanceof StatusListError)) throw error;
  parentPort?.postMessage({ fault: error.fault, message: error.message } satisfies ListAnswer);
}
