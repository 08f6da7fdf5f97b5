import { open, readFile, readlink, stat, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { isJsonObject } from '../../protocol/json.js';
import { RevocationStoreError } from './store-error.js';

const HEARTBEAT_MS = 5_000;
// An owner on another host or in another container cannot be checked from here. Without a heartbeat for this long, it
// counts as gone.
const SILENCE_MS = 30_000;

// A lock may disappear between two looks at it, but not again and again.
const MAX_TRIES = 100;

const LOOK_MS = 50;

/** Identifies a process, so that a later process with the same PID is not mistaken for it. */
interface Owner {
  readonly pid: number;
  readonly host: string;
  /** The boot id of the kernel and the PID namespace, within which `pid` is unique. */
  readonly realm: string;
  /** When the process started, in the kernel's ticks; empty if that is not known. */
  readonly startTime: string;
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
  const me = JSON.stringify(await describeThisProcess());
  const deadline = performance.now() + waitMs;
  for (;;) {
    const holder = await take(lockPath, me);
    if (holder === null) break;
    if (performance.now() >= deadline) throw locked(path, lockPath, holder);
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
      if ((await readLock(lockPath))?.text === me) await unlink(lockPath);
    },
  };
}

/** Takes the lock, also from a process that was killed. @returns `null`, or who has it */
async function take(lockPath: string, me: string): Promise<string | null> {
  for (let tries = 0; !(await create(lockPath, me)); tries++) {
    if (tries === MAX_TRIES)
      throw new RevocationStoreError(
        'locked',
        `${lockPath}, or ${lockPath}.takeover, can neither be created nor read: it may be a link to nowhere. Remove it.`,
      );
    const found = await readLock(lockPath);
    if (found === null) continue;
    if (await isAlive(found.owner, found.touchedMs)) return await describeOwner(found.owner);
    if (!(await removeStale(lockPath, found.text)))
      return 'another process, which is just taking over the lock of one that was killed';
  }
  return null;
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

/** @returns `null` if there is no lock any more. `owner` is `null` if the file does not name one (yet) */
async function readLock(
  lockPath: string,
): Promise<{ text: string; owner: Owner | null; touchedMs: number } | null> {
  try {
    const text = await readFile(lockPath, 'utf8');
    return { text, owner: parseOwner(text), touchedMs: (await stat(lockPath)).mtimeMs };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

function parseOwner(text: string): Owner | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isJsonObject(value)) return null;
  const { pid, host, realm, startTime } = value;
  return typeof pid === 'number' &&
    typeof host === 'string' &&
    typeof realm === 'string' &&
    typeof startTime === 'string'
    ? { pid, host, realm, startTime }
    : null;
}

async function isAlive(owner: Owner | null, touchedMs: number): Promise<boolean> {
  if (owner?.realm !== (await realmOfThisProcess())) return Date.now() - touchedMs < SILENCE_MS;
  if (owner.startTime !== '') return (await startTimeOf(owner.pid)) === owner.startTime;
  try {
    process.kill(owner.pid, 0);
    return true;
  } catch (error) {
    return !hasCode(error, 'ESRCH');
  }
}

/**
 * Removes a stale lock. Only one process at a time may do so. It checks again first, since another process may have
 * removed the stale lock and a third one taken a new lock.
 *
 * @returns false while another process does so
 */
async function removeStale(lockPath: string, text: string): Promise<boolean> {
  const guardPath = `${lockPath}.takeover`;
  if (!(await create(guardPath, ''))) {
    const guard = await readLock(guardPath);
    if (guard === null) return true;
    if (Date.now() - guard.touchedMs < SILENCE_MS) return false;
    await unlink(guardPath);
    return true;
  }
  try {
    if ((await readLock(lockPath))?.text === text) await unlink(lockPath);
  } finally {
    await unlink(guardPath);
  }
  return true;
}

/** Describes an owner for a person. */
async function describeOwner(owner: Owner | null): Promise<string> {
  if (owner === null) return 'a process that is just starting';
  const who = `process ${owner.pid} on ${owner.host}`;
  return owner.realm === (await realmOfThisProcess())
    ? who
    : `${who}, which cannot be seen from here (if it was killed, its lock lapses ${SILENCE_MS / 1000} s later)`;
}

function locked(path: string, lockPath: string, who: string): RevocationStoreError {
  return new RevocationStoreError(
    'locked',
    `${path} is in use by ${who} (lock file ${lockPath}). ` +
      'Stop that process first, or set REVOCATION_STORE_PATH to a file of its own for each process.',
  );
}

async function describeThisProcess(): Promise<Owner> {
  return {
    pid: process.pid,
    host: hostname(),
    realm: await realmOfThisProcess(),
    startTime: await startTimeOf(process.pid),
  };
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
