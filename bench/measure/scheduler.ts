import { readdirSync, readFileSync } from 'node:fs';

/** The scheduler's statistics of a process, all its threads together, in µs. */
export interface Scheduled {
  /** Time on a core. */
  readonly ran: number;
  /** Time ready to run but waiting for a core, because other processes used it. */
  readonly waited: number;
}

/**
 * Reads `/proc/<pid>/task/<thread>/schedstat`, which counts in ns and is exact once the threads sleep.
 *
 * @returns `null` if the kernel has no such file, or the process has ended
 */
export function scheduledOf(pid: number): Scheduled | null {
  try {
    let ran = 0;
    let waited = 0;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const [on = '', ready = ''] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
      ran += Number(on) / 1000;
      waited += Number(ready) / 1000;
    }
    return ran > 0 ? { ran, waited } : null;
  } catch {
    return null;
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

const TICK_MICROS = 10_000;

/** Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. */
export function parseCoreTimes(text: string): CoreTimes | null {
  const line = /^cpu +(.*)$/m.exec(text)?.[1];
  if (line === undefined) return null;
  const [user = 0, nice = 0, system = 0, idle = 0, ioWait = 0, irq = 0, softIrq = 0, steal = 0] = line
    .split(' ')
    .map((ticks) => Number(ticks) * TICK_MICROS);
  const busy = user + nice + system + irq + softIrq;
  return { busy, stolen: steal, total: busy + steal + idle + ioWait };
}
