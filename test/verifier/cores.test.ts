import { describe, expect, it } from 'vitest';
import { coresHere } from '../../src/verifier/cores.js';

describe('the cores that a process may use', () => {
  it.each([
    ['nothing is known', {}, 16],
    [
      'a container of version 2',
      {
        '/proc/self/cgroup': '0::/\n',
        '/sys/fs/cgroup/cpu.max': '250000 100000\n',
      },
      2.5,
    ],
    [
      'a unit without a limit in a slice with one',
      {
        '/proc/self/cgroup': '0::/drs.slice/drs.service\n',
        '/sys/fs/cgroup/drs.slice/drs.service/cpu.max': 'max 100000\n',
        '/sys/fs/cgroup/drs.slice/cpu.max': '400000 100000\n',
      },
      4,
    ],
    [
      'version 1',
      {
        '/proc/self/cgroup': '4:memory:/a\n3:cpu,cpuacct:/a\n0::/\n',
        '/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us': '-1\n',
        '/sys/fs/cgroup/cpu/a/cpu.cfs_period_us': '100000\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '300000\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
      },
      3,
    ],
  ])('are read where %s', (_, files, cores) => {
    expect(coresHere((file) => (files as Record<string, string>)[file] ?? null, 16)).toBe(cores);
  });
});
