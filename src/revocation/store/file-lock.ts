import { open, readFile, readlink, stat, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { isJsonObject } from '../../protocol/json.js';
import { RevocationStoreError } from './store-error.js';

const HEARTBEAT_MS = 5_000;
// An owner on another host or in another container cannot be checked from here. Without a heartbeat for this long, it
// counts as gone.
const SILENCE_MS = 30_000;
const LOOK_MS = 50;
// A lock may disappear between two looks at it, but not again and again.
const MAX_TRIES = 100;

/** Identifies a process, so that a later process with the same PID is not mistaken for it. */
interface Owner {
  readonly pid: number;
  readonly host: string;
  /** The boot id of the kernel and the PID namespace, within which `pid` is unique. */
  readonly realm: string;
  /** When the process started, in the kernel's ticks; empty if that is not known. */
  readonly startTime: string;
}

/** A lock that is there. */
interface Found {
  readonly text: string;
  /** Empty if the lock does not name its owner (yet). */
  readonly owner: Partial<Owner>;
  readonly isAlive: boolean;
}

/** The right to be the only process that uses a file. */
export interface FileLock {
  release(): Promise<void>;
}

/**
 * Takes the lock of a file: `<path>.lock`, which names its owner. Node.js has no kernel lock, so an existing lock is
 * checked for a live owner. If the owner runs under the same kernel and PID namespace, its PID and start time are
 * checked; otherwise its heartbeat, which is the time stamp of the lock file. The lock of a killed process is taken
 * over.
 *
 * @param waitMs how long to wait for an owner that may be just ending, in milliseconds
 * @throws {@link RevocationStoreError} `locked` naming the file and its owner; and any error of the file system
 */
export async function lockFile(path: string, waitMs = 0): Promise<FileLock> {
  const lockPath = `${path}.lock`;
  const realm = await realmOfThisProcess();
  const owner: Owner = {
    pid: process.pid,
    host: hostname(),
    realm,
    startTime: await startTimeOf(process.pid),
  };
  const me = JSON.stringify(owner);
  const deadline = performance.now() + waitMs;
  for (let tries = 0; !(await create(lockPath, me)); tries++) {
    const found = await readLock(lockPath, realm);
    if (found === null || (!found.isAlive && (await removeStale(lockPath, found.text, realm)))) {
      if (tries < MAX_TRIES) continue;
      throw new RevocationStoreError(
        'locked',
        `${lockPath}, or ${lockPath}.takeover, can neither be created nor read: it may be a link to nowhere. Remove it.`,
      );
    }
    if (performance.now() >= deadline) throw locked(path, lockPath, found, realm);
    await pause(LOOK_MS * (1 + Math.random()));
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    // A missed heartbeat matters only to processes elsewhere, and the next one may succeed.
    utimes(lockPath, now, now).catch(() => undefined);
  }, HEARTBEAT_MS).unref();
  return {
    async release() {
      clearInterval(heartbeat);
      if ((await readLock(lockPath, realm))?.text === me) await unlink(lockPath);
    },
  };
}

/** @returns false if the lock exists */
async function create(lockPath: string, owner: string): Promise<boolean> {
  let handle;
  try {
    handle = await open(lockPath, 'wx', 0o640);
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  }
  try {
    await handle.writeFile(owner);
  } catch (error) {
    await unlink(lockPath);
    throw error;
  } finally {
    await handle.close();
  }
  return true;
}

/** @returns `null` if there is no lock any more */
async function readLock(lockPath: string, realm: string): Promise<Found | null> {
  try {
    const text = await readFile(lockPath, 'utf8');
    const { mtimeMs } = await stat(lockPath);
    const owner = parseOwner(text);
    const isAlive = owner.realm === realm ? await runs(owner as Owner) : Date.now() - mtimeMs < SILENCE_MS;
    return { text, owner, isAlive };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

function parseOwner(text: string): Partial<Owner> {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Whether a process of this realm runs. */
async function runs({ pid, startTime }: Owner): Promise<boolean> {
  if (startTime !== '') return (await startTimeOf(pid)) === startTime;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !hasCode(error, 'ESRCH');
  }
}

/**
 * Removes a stale lock. Only one process at a time may do so, which has a lock for it. It checks again first, since
 * another process may have removed the stale lock and a third one taken a new lock.
 *
 * @returns false while another process does so
 */
async function removeStale(lockPath: string, text: string, realm: string): Promise<boolean> {
  const guardPath = `${lockPath}.takeover`;
  if (!(await create(guardPath, ''))) {
    const guard = await readLock(guardPath, realm);
    if (guard?.isAlive === true) return false;
    if (guard !== null) await unlink(guardPath);
    return true;
  }
  try {
    if ((await readLock(lockPath, realm))?.text === text) await unlink(lockPath);
  } finally {
    await unlink(guardPath);
  }
  return true;
}

function locked(
  path: string,
  lockPath: string,
  { owner, isAlive }: Found,
  realm: string,
): RevocationStoreError {
  const { pid, host } = owner;
  let who = pid === undefined ? 'a process that is just starting' : `process ${pid} on ${host}`;
  if (!isAlive) who = 'another process, which is just taking over the lock of one that was killed';
  else if (pid !== undefined && owner.realm !== realm)
    who += `, which cannot be seen from here (if it was killed, its lock lapses ${SILENCE_MS / 1000} s later)`;
  return new RevocationStoreError(
    'locked',
    `${path} is in use by ${who} (lock file ${lockPath}). ` +
      'Stop that process first, or set REVOCATION_STORE_PATH to a file of its own for each process.',
  );
}

async function realmOfThisProcess(): Promise<string> {
  try {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8');
    return `${boot.trim()} ${await readlink('/proc/self/ns/pid')}`;
  } catch {
    // Not Linux: use the host name; only PIDs can be compared.
    return hostname();
  }
}

/**
 * The start time of a process that runs, in ticks since boot; empty for one that does not. proc(5), field 22 of stat
 */
async function startTimeOf(pid: number): Promise<string> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie (killed, not yet reaped by its parent) holds no files any more.
    return state === 'Z' ? '' : (fields[18] ?? '');
  } catch {
    return '';
  }
}

const hasCode = (error: unknown, code: string) => (error as NodeJS.ErrnoException).code === code;
