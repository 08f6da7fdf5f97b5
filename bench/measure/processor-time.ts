import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { sum } from 'simple-statistics';

/** What is read below `/proc`, or a value if there is no such file: other systems have none, nor have ended processes. */
function readOr<Value>(otherwise: Value, read: () => Value): Value {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/**
 * Processor time that a process has used with all its threads, in µs, without other processes such as a load generator.
 * Reads `/proc/<pid>/task/<thread>/schedstat`, which counts in ns; if the kernel has none, `/proc/<pid>/stat`, in ticks
 * of 10 ms.
 *
 * @returns `NaN` if it is not known
 */
export const processorTimeOf = (pid: number): number =>
  readOr(Number.NaN, () => {
    const times = readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]),
    );
    return sum(times) / 1000 || ticksOf(`/proc/${pid}/stat`);
  });

/** All processes that a process has started, and theirs; none without `/proc`. */
export const descendantsOf = (pid: number): number[] =>
  readOr([], () => {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').slice(0, -1);
    return children.flatMap((child) => [Number(child), ...descendantsOf(Number(child))]);
  });

/** Processor time of this process's children that have ended, in µs (cutime + cstime); 0 without `/proc`. */
export const processorTimeOfEndedChildren = (): number => readOr(0, () => ticksOf('/proc/self/stat', 16));

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
export const residentOf = (pid: number): number =>
  readOr(0, () => Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096);

/**
 * Processor time of all cores since the system started, in µs; `busy` includes what the hypervisor gave to other machines.
 * The first line of `/proc/stat` counts in ticks of 10 ms: user, nice, system, idle, iowait, irq, softirq, steal.
 */
export const coreTimes = (file = '/proc/stat'): { readonly busy: number; readonly total: number } =>
  readOr({ busy: 0, total: 0 }, () => {
    const [line = ''] = readFileSync(file, 'utf8').split('\n');
    const times = line
      .split(/ +/)
      .slice(1, 9)
      .map((ticks) => Number(ticks) * 10_000);
    const [, , , idle = 0, ioWait = 0] = times;
    return { busy: sum(times) - idle - ioWait, total: sum(times) };
  });
