import { open, type FileHandle } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { RevocationStoreError } from './revocation-store.js';

const LOOK_MS = 50;
const NOTE = "The owner, or the last one. The kernel's lock ends with the process; this file stays.";

/**
 * Takes the lock of a file: the kernel's, on `<path>.lock`. It ends with the process, and reaches other hosts as far as the
 * file system carries locks. What is in `<path>.lock` is for people.
 *
 * @param waitMs how long to wait for an owner that may be just ending, in milliseconds
 * @returns holds the lock until it is closed
 * @throws {@link RevocationStoreError} `locked` naming the file and its owner; and any error of the file system
 */
export async function lockFile(path: string, waitMs = 0): Promise<FileHandle> {
  // Loaded only here: without a file to lock, no machine code is needed.
  const kernel = createRequire(import.meta.url)('fs-native-extensions') as { tryLock(fd: number): boolean };
  const lockPath = `${path}.lock`;
  const deadline = performance.now() + waitMs;
  const handle = await open(lockPath, 'a+', 0o640);
  try {
    while (!kernel.tryLock(handle.fd)) {
      if (performance.now() >= deadline) {
        const owner = (await handle.readFile('utf8')).split('\n').at(-1);
        throw new RevocationStoreError(
          'locked',
          `${path} is in use by ${owner || 'a process that is just starting'} (lock file ${lockPath}). ` +
            'Stop that process first, or set REVOCATION_STORE_PATH to a file of its own for each process.',
        );
      }
      await pause(LOOK_MS);
    }
    await handle.truncate();
    await handle.writeFile(`${NOTE}\nprocess ${process.pid} on ${hostname()}`);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}
