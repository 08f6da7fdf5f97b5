import { open, readFile, stat, unlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { RevocationStoreError } from './store-error.js';

const HEARTBEAT_MS = 5_000;
// An owner on another host, whose kernel lock need not reach this one, counts as gone after this long without a heartbeat.
const SILENCE_MS = 30_000;
// Longer than a process elsewhere takes from its look at a silent lock until it has written its name into it.
const SETTLE_MS = 250;
const LOOK_MS = 50;
const ENDING = 'a process that is just ending (or it is a link to nowhere: remove it)';

/** The right to be the only process that uses a file. */
export interface FileLock {
  release(): Promise<void>;
}

/**
 * Takes the lock of a file: the kernel's, on `<path>.lock`, which ends with the process. It need not reach other hosts that
 * share the folder. So `<path>.lock` says under which kernel its owner runs, and which it is, and is touched as a heartbeat.
 *
 * @param waitMs how long to wait for an owner that may be just ending, in milliseconds
 * @throws {@link RevocationStoreError} `locked` naming the file and its owner; and any error of the file system
 */
export async function lockFile(path: string, waitMs = 0): Promise<FileLock> {
  const lockPath = `${path}.lock`;
  const bootId = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(hostname);
  const me = `${bootId.trim()}\nprocess ${process.pid} on ${hostname()}`;
  const deadline = performance.now() + waitMs;
  for (;;) {
    const taken = await takeLock(lockPath, me);
    if (typeof taken !== 'string') return taken;
    if (performance.now() >= deadline)
      throw new RevocationStoreError(
        'locked',
        `${path} is in use by ${taken} (lock file ${lockPath}). ` +
          'Stop that process first, or set REVOCATION_STORE_PATH to a file of its own for each process.',
      );
    await pause(LOOK_MS);
  }
}

/** @returns who has it, in words, if this process cannot have it now */
async function takeLock(lockPath: string, me: string): Promise<FileLock | string> {
  const created = await open(lockPath, 'wx', 0o640).catch(unless('EEXIST'));
  const handle = created ?? (await open(lockPath, 'r+').catch(unless('ENOENT')));
  if (handle === null) return ENDING;
  let isTaken = false;
  try {
    const { ino, mtimeMs } = await handle.stat();
    const isSilent = Date.now() - mtimeMs >= SILENCE_MS;
    const [bootId, owner = 'a process that is just starting'] = (await textOf(lockPath)).split('\n');
    if (created === null && bootId !== me.split('\n')[0] && !isSilent)
      return `${owner}, which cannot be seen from here: if it was killed, its lock lapses ${SILENCE_MS / 1000} s later`;
    if (!kernel().tryLock(handle.fd)) return owner;
    // Its owner removes it before the kernel's lock ends.
    if ((await stat(lockPath).catch(unless('ENOENT')))?.ino !== ino) return ENDING;
    await handle.truncate();
    await handle.writeFile(me);
    if (isSilent) {
      await pause(SETTLE_MS);
      if ((await textOf(lockPath)) !== me) return 'a process that has just taken it over';
    }
    isTaken = true;
  } catch (error) {
    if (created !== null) await unlink(lockPath);
    throw error;
  } finally {
    if (!isTaken) await handle.close();
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    // A missed heartbeat matters only to processes elsewhere, and the next one may succeed.
    handle.utimes(now, now).catch(() => undefined);
  }, HEARTBEAT_MS).unref();
  return {
    async release() {
      clearInterval(heartbeat);
      if ((await textOf(lockPath)) === me) await unlink(lockPath);
      await handle.close();
    },
  };
}

interface Kernel {
  /** Whether no other open file of this name has the lock. */
  tryLock(fd: number): boolean;
}

// Loaded only here: without a file to lock, no machine code is needed.
const kernel = () => createRequire(import.meta.url)('fs-native-extensions') as Kernel;

/** @returns empty if there is no such file */
const textOf = async (path: string) => (await readFile(path, 'utf8').catch(unless('ENOENT'))) ?? '';

/** @returns a handler that lets one kind of error count as `null` */
const unless = (code: string) => (error: unknown) => {
  if ((error as NodeJS.ErrnoException).code !== code) throw error;
  return null;
};
