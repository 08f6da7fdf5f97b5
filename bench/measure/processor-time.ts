import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { sum } from 'simple-statistics';

/**
 * Processor time that a process has used with all its threads, in µs, without other processes such as a load generator.
 * Reads `/proc/<pid>/task/<thread>/schedstat`, which counts in ns; if the kernel has none, `/proc/<pid>/stat`, in ticks
 * of 10 ms.
 *
 * @returns `NaN` if there is no `/proc`, or the process has ended
 */
export function processorTimeOf(pid: number): number {
  try {
    const times = readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]),
    );
    return sum(times) / 1000 || ticksOf(`/proc/${pid}/stat`);
  } catch {
    return Number.NaN;
  }
}

/** All processes that a process has started, and theirs; none without `/proc`. */
export function descendantsOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').slice(0, -1);
    return children.flatMap((child) => [Number(child), ...descendantsOf(Number(child))]);
  } catch {
    return [];
  }
}

/** Processor time of this process's children that have ended, in µs (cutime + cstime); 0 without `/proc`. */
export function processorTimeOfEndedChildren(): number {
  try {
    return ticksOf('/proc/self/stat', 16);
  } catch {
    return 0;
  }
}

/** utime and stime are fields 14 and 15; field 2, the name in parentheses, may hold spaces. */
function ticksOf(file: string, first = 14): number {
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  ticksPerSecond ??= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  return ((Number(fields[first - 3]) + Number(fields[first - 2])) * 1e6) / ticksPerSecond;
}

let ticksPerSecond: number | undefined;

/** Resident memory of a process in bytes, from `/proc/<pid>/statm`; 0 if there is no such file. */
export function residentOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096;
  } catch {
    return 0;
  }
}

/** Processor time of all cores since the system started, in µs; `busy` includes what the hypervisor gave to other machines. */
export interface CoreTimes {
  readonly busy: number;
  readonly total: number;
}

/** Reads `/proc/stat`, which counts in ticks of 10 ms. @returns `null` if there is no such file */
export function coreTimes(): CoreTimes | null {
  try {
    return parseCoreTimes(readFileSync('/proc/stat', 'utf8'));
  } catch {
    return null;
  }
}

/** Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. */
export function parseCoreTimes(text: string): CoreTimes | null {
  const line = /^cpu +(.*)$/m.exec(text)?.[1];
  if (line === undefined) return null;
  const times = line.split(' ').map((ticks) => Number(ticks) * 10_000);
  const [, , , idle = 0, ioWait = 0] = times;
  const total = sum(times.slice(0, 8));
  return { busy: total - idle - ioWait, total };
}
