import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { isRaw, readStatusList, type ReadOptions, type StatusList } from './read-status-list.js';
import { StatusListError, type StatusListFault } from './status-list-error.js';

// A list within both limits takes a few milliseconds to read. A short body can unpack to a thousand times its length.
const MAX_BYTES_HERE = 256 * 1024;
const MAX_UNPACKED_BYTES_HERE = 1024 * 1024;

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

/**
 * Reads a status list like {@link readStatusList}, with the same results and errors. A short list is read here, a
 * long one on another thread, so that it does not block the event loop.
 *
 * @param body up to 16 MiB. Do not use it afterwards: its memory may be transferred to the thread
 * @param options.signal ends the thread; its reason is thrown
 * @throws {@link StatusListError} as {@link readStatusList}, and `internal` if the thread ends without an answer
 */
export async function readList(
  body: Buffer,
  contentType: string,
  { signal, ...options }: ReadOptions & { readonly signal: AbortSignal },
): Promise<StatusList> {
  if (isRaw(contentType)) return readStatusList(body, contentType, options);
  if (body.length <= MAX_BYTES_HERE) {
    try {
      const here = { ...options, maxUnpackedBytes: MAX_UNPACKED_BYTES_HERE };
      return await readStatusList(body, contentType, here);
    } catch (error) {
      if (!(error instanceof StatusListError) || error.fault !== 'too_large') throw error;
    }
  }
  const file = createRequire(import.meta.url).resolve('#status-list-reader');
  return readOnThread(file, { body, contentType, options }, signal);
}

/** Reads a list on a new thread, which then ends. Exported for tests, which pass other thread files. */
export function readOnThread(file: string, task: ListTask, signal: AbortSignal): Promise<StatusList> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    // Options of this process, such as a debugger's port, must not apply to the thread.
    const worker = new Worker(file, {
      workerData: task,
      transferList: transferable(task.body),
      execArgv: [],
    });
    const fail = (message: string, cause?: unknown) =>
      end(() => reject(new StatusListError('internal', message, { cause })));
    const onAbort = () => end(() => reject(signal.reason as Error));
    const end = (settle: () => void) => {
      signal.removeEventListener('abort', onAbort);
      settle();
      void worker.terminate();
    };
    signal.addEventListener('abort', onAbort);
    worker.on('message', (answer: ListAnswer) =>
      end(() => {
        if (answer.list === undefined) reject(new StatusListError(answer.fault, answer.message));
        else resolve({ ...answer.list, bits: bufferOver(answer.list.bits) });
      }),
    );
    worker.on('error', (error) => fail(`the thread that read it failed: ${error.message}`, error));
    worker.on('exit', (code) => fail(`the thread that read it ended with ${code} and without an answer`));
  });
}

/** The memory to transfer to a thread; empty for a part of Node's shared pool, which is copied instead. */
export function transferable({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}

/** A Buffer over bytes from another thread, which arrive as a plain `Uint8Array`. */
export function bufferOver({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
