import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import path from 'node:path';

/** The cores and the memory that a process may use. */
export interface Resources {
  /** Number of cores; a fraction if a quota sets one. */
  readonly cores: number;
  readonly memoryBytes: number;
}

const ROOT = '/sys/fs/cgroup';

/**
 * The cores and the memory that this process may use: those of the machine, limited by the process's control groups
 * (version 1 or 2). Node 20 itself knows only the cores of the host.
 *
 * @param read returns the text of a file, or `null` if there is none; tests replace it
 * @example resourcesHere(); // { cores: 2.5, memoryBytes: 2147483648 } in a container with these limits
 */
export function resourcesHere(
  read: (file: string) => string | null = readText,
  machine: Resources = { cores: availableParallelism(), memoryBytes: totalmem() },
): Resources {
  let { cores, memoryBytes } = machine;
  const groups = read('/proc/self/cgroup') ?? '';
  for (const [, controllers = '', group = '/'] of groups.matchAll(/^\d+:([^:\n]*):(.*)$/gm)) {
    // The groups above it limit the process too. In a container, the root is the group of the container.
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

/** The number of cores that a quota allows: quota divided by period. Infinity if there is no quota. */
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
