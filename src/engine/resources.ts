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
 * Node 20 itself knows the cores of the host only.
 *
 * @param read the text of a file, or `null` where there is none; for tests
 * @example resourcesHere(); // { cores: 2.5, memoryBytes: 2147483648 } in a container with these limits
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
