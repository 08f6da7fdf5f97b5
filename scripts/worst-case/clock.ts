import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

// The first figure is the time that this thread, the process' first, has run: nanoseconds.
const FIGURES = `/proc/self/task/${process.pid}/schedstat`;

/**
 * Milliseconds for which the main thread has run. Other programs on the machine, and other threads of this one, do
 * not count; only where the system keeps no such figure (anything but Linux) it is the clock.
 */
export function mainThreadMs(): number {
  // Makes Linux bring the figure up to date, which it otherwise does only every few milliseconds.
  process.cpuUsage();
  try {
    return Number.parseInt(readFileSync(FIGURES, 'latin1'), 10) / 1e6;
  } catch {
    return performance.now();
  }
}
