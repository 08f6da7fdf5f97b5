import { describe, expect, it } from 'vitest';
import { resourcesHere } from '../../src/verifier/resources.js';

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
});
