import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { parseCoreTimes, processorTimeOf } from '../../bench/measure/processor-time.js';

describe('what the kernel accounts', () => {
  it('is read from /proc/stat', () => {
    // user nice system idle iowait irq softirq steal guest guest_nice
    const text = 'cpu  100 1 20 500 7 3 4 60 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 1\n';
    expect(parseCoreTimes(text)).toEqual({ busy: 1_880_000, total: 6_950_000 });
    expect(parseCoreTimes('nothing')).toBeNull();
  });

  it.skipIf(process.platform !== 'linux')('of a process grows with what it does', async () => {
    const before = processorTimeOf(process.pid);
    const start = process.cpuUsage();
    while (process.cpuUsage(start).user < 50_000);
    await sleep(1);
    const after = processorTimeOf(process.pid);
    expect(after - before).toBeGreaterThan(45_000);
    expect(processorTimeOf(2 ** 30)).toBeNaN();
  });
});
