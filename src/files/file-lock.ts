import { open, type FileHandle } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';

/** A kind of files of entries, one a line, and what errors say of it. */
export interface FileKind {
  readonly name: string;
  readonly mode: number;
  /** What to do where another process has the file. */
  readonly ifLocked: string;
  /** What to do about a line that is no entry. */
  readonly ifDamaged: string;
  /** `locked`: another process has it. `unreadable`: it cannot be opened, or a line is no entry. `not_recorded`: a write failed. */
  readonly Failure: new (
    fault: 'locked' | 'unreadable' | 'not_recorded',
    message: string,
    options?: ErrorOptions,
  ) => Error;
}

/** What a lock needs: kinds that have no error of their own get an `Error`. */
type LockKind = Pick<FileKind, 'mode' | 'ifLocked'> & Partial<Pick<FileKind, 'Failure'>>;

const LOOK_MS = 5;
const NOTE_BYTES = 1024;
const NOTE = "The owner, or the last one. The kernel's lock ends with the process; this file stays.";

type Kernel = { tryLock(fd: number): boolean; unlock(fd: number): void };
let loaded: Kernel | undefined;
/** Loaded only when it is needed: without a file to lock, no machine code is. */
const kernel = () => (loaded ??= createRequire(import.meta.url)('fs-native-extensions') as Kernel);

/**
 * Takes the lock of a file: the kernel's, on `<path>.lock`. It ends with the process, and reaches other hosts as far as the
 * file system carries locks. What is in `<path>.lock` is for people.
 *
 * @param waitMs how long to wait for an owner that may be just ending, in milliseconds
 * @returns holds the lock until it is closed
 * @throws the failure of its kind, `locked`, naming the file and its owner; and any error of the file system
 */
export async function lockFile(path: string, { mode, ifLocked, Failure }: LockKind, waitMs = 0) {
  const lockPath = `${path}.lock`;
  const handle = await open(lockPath, 'a+', mode);
  try {
    const holder = await takeLock(handle, waitMs);
    if (holder === null) return handle;
    const problem = `${path} is in use by ${holder} (lock file ${lockPath}). Stop that process first, or ${ifLocked}.`;
    throw Failure === undefined ? new Error(problem) : new Failure('locked', problem);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** @returns who has the lock, if it is still taken after the time */
export async function takeLock(lock: FileHandle, waitMs: number): Promise<string | null> {
  const deadline = performance.now() + waitMs;
  while (!kernel().tryLock(lock.fd)) {
    if (performance.now() >= deadline) {
      const { buffer, bytesRead } = await lock.read(Buffer.alloc(NOTE_BYTES), 0, NOTE_BYTES, 0);
      return buffer.toString('utf8', 0, bytesRead).split('\n').at(-1) || 'a process that is just starting';
    }
    await pause(LOOK_MS);
  }
  // A starting process would make a new lock file, and not see the lock of this one.
  if ((await lock.stat()).nlink === 0) throw new Error('its lock file was removed; restart this process');
  await lock.truncate();
  await lock.writeFile(`${NOTE}\nprocess ${process.pid} on ${hostname()}`);
  return null;
}

/** Gives up what {@link takeLock} has taken. */
export const unlock = (lock: FileHandle) => kernel().unlock(lock.fd);
