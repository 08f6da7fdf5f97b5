import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import path from 'node:path';

/** What this process may use. */
export interface Resources {
  /** Cores, in parts where a quota says so. */
  readonly cores: number;
  readonly memoryBytes: number;
}

const ROOT = '/sys/fs/cgroup';

/**
 * The cores and the memory that the machine has and the control groups of this process (version 1 or 2) leave to it.
 *
 * @param read the text of a file, or `null` where there is none; for tests
 */
export function resourcesHere(
  read: (file: string) => string | null = readText,
  machine: Resources = { cores: availableParallelism(), memoryBytes: totalmem() },
): Resources {
  let { cores, memoryBytes } = machine;
  const groups = read('/proc/self/cgroup') ?? '';
  for (const [, controllers = '', group = '/'] of groups.matchAll(/^\d+:([^:\n]*):(.*)$/gm)) {
    // Each group above limits it, too. In a container the root is its own group.
    for (let at = group; ; at = path.posix.dirname(at)) {
      if (controllers === '') {
        const [quota, period] = (read(path.posix.join(ROOT, at, 'cpu.max')) ?? '').trim().split(/\s+/);
        cores = Math.min(cores, share(quota, period));
        memoryBytes = Math.min(memoryBytes, amount(read(path.posix.join(ROOT, at, 'memory.max'))));
      } else if (controllers.split(',').includes('cpu')) {
        const [quota, period] = ['cpu.cfs_quota_us', 'cpu.cfs_period_us'].map((file) =>
          read(path.posix.join(ROOT, 'cpu', at, file))?.trim(),
        );
        cores = Math.min(cores, share(quota, period));
      } else if (controllers.split(',').includes('memory')) {
        memoryBytes = Math.min(
          memoryBytes,
          amount(read(path.posix.join(ROOT, 'memory', at, 'memory.limit_in_bytes'))),
        );
      }
      if (at === '/' || at === '.') break;
    }
  }
  return { cores, memoryBytes };
}

/** A quota in parts of a period; Infinity where there is none. */
function share(quota: string | undefined, period: string | undefined): number {
  const cores = Number(quota) / Number(period);
  return cores > 0 ? cores : Infinity;
}

function amount(text: string | null): number {
  const bytes = text === null || text.trim() === '' ? Number.NaN : Number(text);
  return bytes > 0 ? bytes : Infinity;
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

const MIB = 1024 * 1024;
/** What a process takes beside what is configured. */
const BASE_BYTES = 130 * MIB;
const MIN_SHARE_BYTES = BASE_BYTES + 32 * MIB;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The environment of each of several processes: its share of the cores as worker threads, and of the memory for its
 * cache and bodies. What is set in the environment stays, and is for each process.
 *
 * @throws RangeError where there is not enough memory
 */
export function shareOut(
  env: Environment,
  processes: number,
  { cores, memoryBytes }: Resources,
): Record<string, string> {
  const memory = Math.floor(memoryBytes / processes);
  if (memory < MIN_SHARE_BYTES) {
    const possible = Math.max(1, Math.floor(memoryBytes / MIN_SHARE_BYTES));
    throw new RangeError(
      `${processes} processes have ${Math.floor(memory / MIB)} MiB of memory each, expected at least ` +
        `${MIN_SHARE_BYTES / MIB}: start at most ${possible}, or raise the limit of memory`,
    );
  }
  const left = memory - BASE_BYTES;
  const shares: Record<string, number> = {
    // The main thread of each takes a core itself.
    WORKER_THREADS: Math.max(0, Math.floor(cores / processes) - 1),
    RECEIPT_CACHE_BYTES: Math.min(64 * MIB, Math.floor(left / 4)),
    MAX_BODY_MEMORY: Math.min(128 * MIB, Math.floor(left / 4)),
  };
  // That of MAX_BODY_BYTES is at least four times that, and follows from it by itself.
  if ((env['MAX_BODY_BYTES'] ?? '').trim() !== '') delete shares['MAX_BODY_MEMORY'];
  return Object.fromEntries(
    Object.entries(shares)
      .filter(([name]) => (env[name] ?? '').trim() === '')
      .map(([name, value]) => [name, String(value)]),
  );
}
