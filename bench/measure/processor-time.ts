import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Processor time that a process has used, user and system together, in µs. */
export interface ProcessorTime {
  readonly total: number;
  /** Processor time of its main thread alone. */
  readonly mainThread: number;
}

/**
 * The processor time of a process as the operating system counts it, without other processes such as a load generator.
 *
 * `/proc/<pid>/stat` (utime + stime) counts in ticks of 10 ms. The scheduler's own statistics of each thread count in
 * ns, and are used if the kernel has them.
 *
 * @returns `null` if there is no `/proc`
 */
export function processorTimeOf(pid: number): ProcessorTime | null {
  try {
    return fromScheduler(pid) ?? fromTicks(pid);
  } catch {
    return null;
  }
}

function fromScheduler(pid: number): ProcessorTime | null {
  let total = 0;
  let mainThread = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [nanoseconds] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
    const microseconds = Number(nanoseconds) / 1000;
    total += microseconds;
    if (thread === String(pid)) mainThread = microseconds;
  }
  return mainThread > 0 ? { total, mainThread } : null;
}

function fromTicks(pid: number): ProcessorTime {
  return { total: ticksOf(`/proc/${pid}/stat`), mainThread: ticksOf(`/proc/${pid}/task/${pid}/stat`) };
}

/** utime and stime are fields 14 and 15; field 2, the name in parentheses, may hold spaces. */
function ticksOf(file: string, first = 14): number {
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const ticks = Number(fields[first - 3]) + Number(fields[first - 2]);
  return (ticks * 1e6) / ticksPerSecond();
}

/** Processor time of this process's children that have ended, in µs (cutime + cstime); `null` without `/proc`. */
export function processorTimeOfEndedChildren(): number | null {
  try {
    return ticksOf('/proc/self/stat', 16);
  } catch {
    return null;
  }
}

let clockTicks: number | undefined;

function ticksPerSecond(): number {
  return (clockTicks ??= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' })));
}
