import { describe, expect, it } from 'vitest';
import { resourcesHere, shareOut } from '../../src/server/resources.js';

const GIB = 1024 ** 3;
const machine = { cores: 16, memoryBytes: 64 * GIB };
const here = (files: Record<string, string>) => resourcesHere((file) => files[file] ?? null, machine);

describe('what a process may use', () => {
  it.each([
    ['nothing is known', {}, 16, 64 * GIB],
    [
      'a container of version 2',
      {
        '/proc/self/cgroup': '0::/\n',
        '/sys/fs/cgroup/cpu.max': '250000 100000\n',
        '/sys/fs/cgroup/memory.max': `${2 * GIB}\n`,
      },
      2.5,
      2 * GIB,
    ],
    [
      'a unit without a limit in a slice with one',
      {
        '/proc/self/cgroup': '0::/drs.slice/drs.service\n',
        '/sys/fs/cgroup/drs.slice/drs.service/cpu.max': 'max 100000\n',
        '/sys/fs/cgroup/drs.slice/drs.service/memory.max': 'max\n',
        '/sys/fs/cgroup/drs.slice/cpu.max': '400000 100000\n',
      },
      4,
      64 * GIB,
    ],
    [
      'version 1',
      {
        '/proc/self/cgroup': '4:memory:/a\n3:cpu,cpuacct:/a\n0::/\n',
        '/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us': '-1\n',
        '/sys/fs/cgroup/cpu/a/cpu.cfs_period_us': '100000\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '300000\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
        '/sys/fs/cgroup/memory/a/memory.limit_in_bytes': String(GIB),
      },
      3,
      GIB,
    ],
  ])('is read where %s', (_, files, cores, memoryBytes) => {
    expect(here(files)).toEqual({ cores, memoryBytes });
  });

  it('is shared out by quota, not by the cores of the host', () => {
    // Eight processes on 16 cores: 8 workers in all, not 120. With a quota of 4 cores: none.
    expect(shareOut({}, 8, machine)).toMatchObject({ WORKER_THREADS: '1' });
    expect(shareOut({}, 8, { ...machine, cores: 4 })).toMatchObject({ WORKER_THREADS: '0' });
    expect(shareOut({ WORKER_THREADS: '2' }, 8, machine)).not.toHaveProperty('WORKER_THREADS');
    const { RECEIPT_CACHE_BYTES, MAX_BODY_MEMORY } = shareOut({}, 4, { cores: 4, memoryBytes: GIB });
    expect(Number(RECEIPT_CACHE_BYTES) + Number(MAX_BODY_MEMORY)).toBeLessThan(GIB / 4 - 130 * 1024 ** 2);
    expect(() => shareOut({}, 8, { cores: 4, memoryBytes: GIB })).toThrow('start at most 6');
  });
});
