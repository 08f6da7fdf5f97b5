import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

// The first number in this file is the time in nanoseconds that the main thread has run.
const SCHEDSTAT = `/proc/self/task/${process.pid}/schedstat`;

/**
 * Milliseconds for which the main thread has run. Other programs, and other threads of this one, do not count. On
 * systems other than Linux, it is the clock.
 */
export function mainThreadMs(): number {
  // Makes Linux update the number, which it otherwise does only every few milliseconds.
  process.cpuUsage();
  try {
    return Number.parseInt(readFileSync(SCHEDSTAT, 'latin1'), 10) / 1e6;
  } catch {
    return performance.now();
  }
}
