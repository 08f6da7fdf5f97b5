import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** What the scheduler says of a process, all its threads together, in µs. */
export interface Scheduled {
  /** Processor time. */
  readonly ran: number;
  /** Processor time of the main thread alone. */
  readonly mainThread: number;
}

/**
 * Processor time that a process has used, without other processes such as a load generator. Reads
 * `/proc/<pid>/task/<thread>/schedstat`, which counts in ns; if the kernel has none, `/proc/<pid>/stat`, in ticks of 10
 * ms.
 *
 * @returns `null` if there is no `/proc`, or the process has ended
 */
export function scheduledOf(pid: number): Scheduled | null {
  try {
    let ran = 0;
    let mainThread = 0;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const [nanoseconds] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
      ran += Number(nanoseconds) / 1000;
      if (thread === String(pid)) mainThread = Number(nanoseconds) / 1000;
    }
    if (mainThread > 0) return { ran, mainThread };
    return { ran: ticksOf(`/proc/${pid}/stat`), mainThread: ticksOf(`/proc/${pid}/task/${pid}/stat`) };
  } catch {
    return null;
  }
}

/** Processor time of this process's children that have ended, in µs (cutime + cstime); `null` without `/proc`. */
export function processorTimeOfEndedChildren(): number | null {
  try {
    return ticksOf('/proc/self/stat', 16);
  } catch {
    return null;
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

/** Processor time of all cores since the system started, in µs. */
export interface CoreTimes {
  readonly busy: number;
  /** Time that the hypervisor gave to other machines. */
  readonly stolen: number;
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
  const [user = 0, nice = 0, system = 0, idle = 0, ioWait = 0, irq = 0, softIrq = 0, stolen = 0] = line
    .split(' ')
    .map((ticks) => Number(ticks) * 10_000);
  const busy = user + nice + system + irq + softIrq;
  return { busy, stolen, total: busy + stolen + idle + ioWait };
}
