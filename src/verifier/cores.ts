import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';

const ROOT = '/sys/fs/cgroup';

/**
 * The number of cores that this process may use, a fraction if a quota sets one: those of the machine, limited by the
 * process's control groups (version 1 or 2). Node 20 itself knows only the cores of the host.
 *
 * @param read returns the text of a file, or `null` if there is none; tests replace it
 * @example coresHere(); // 2.5 in a container with this limit
 */
export function coresHere(
  read: (file: string) => string | null = readText,
  ofMachine = availableParallelism(),
): number {
  let cores = ofMachine;
  const groups = read('/proc/self/cgroup') ?? '';
  for (const [, controllers = '', group = '/'] of groups.matchAll(/^\d+:([^:\n]*):(.*)$/gm)) {
    if (controllers !== '' && !controllers.split(',').includes('cpu')) continue;
    // The groups above it limit the process too. In a container, the root is the group of the container.
    for (let at = group; ; at = path.posix.dirname(at)) {
      const textOf = (file: string) =>
        read(path.posix.join(ROOT, controllers === '' ? '' : 'cpu', at, file)) ?? '';
      const [quota, period] =
        controllers === ''
          ? textOf('cpu.max').trim().split(/\s+/)
          : [textOf('cpu.cfs_quota_us'), textOf('cpu.cfs_period_us')];
      // Without a quota it is no number, or below 0.
      const share = Number(quota) / Number(period);
      if (share > 0) cores = Math.min(cores, share);
      if (at === '/' || at === '.') break;
    }
  }
  return cores;
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}
