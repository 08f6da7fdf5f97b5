import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { coreTimes, descendantsOf, processorTimeOf } from '../../bench/measure/processor-time.js';
import { end } from '../support/child.js';

describe('what the kernel accounts', () => {
  it('is read from /proc/stat', () => {
    // user nice system idle iowait irq softirq steal guest guest_nice
    const text = 'cpu  100 1 20 500 7 3 4 60 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 1\n';
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-proc-'));
    writeFileSync(path.join(folder, 'stat'), text);
    expect(coreTimes(path.join(folder, 'stat'))).toEqual({ busy: 1_880_000, total: 6_950_000 });
    rmSync(folder, { recursive: true });
    expect(coreTimes(path.join(folder, 'stat'))).toEqual({ busy: 0, total: 0 });
  });

  it.skipIf(process.platform !== 'linux')('of a process grows with what it does', async () => {
    // Not this process: a thread that a test before has left behind may end meanwhile, and what it used no longer counts.
    const child = spawn(process.execPath, ['-e', WORKS], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      const said = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      expect((await said.next()).value).toBe('begun');
      expect(descendantsOf(process.ppid)).toEqual(expect.arrayContaining([process.pid, child.pid]));
      const before = processorTimeOf(child.pid ?? 0);
      child.stdin.write('\n');
      expect((await said.next()).value).toBe('done');
      const after = processorTimeOf(child.pid ?? 0);
      expect(after - before).toBeGreaterThan(45_000);
    } finally {
      await end(child);
    }
    expect(processorTimeOf(2 ** 30)).toBeNaN();
  });
});

/** Works for 50 ms when it is told to. Of a process that is running, the kernel has not counted all yet. */
const WORKS = `
  process.stdin.once('data', () => {
    const start = process.cpuUsage();
    while (process.cpuUsage(start).user < 50_000);
    setTimeout(() => console.log('done'), 1);
  });
  console.log('begun');`;
