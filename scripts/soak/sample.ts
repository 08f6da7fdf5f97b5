import { readdirSync, readFileSync } from 'node:fs';

/** What is looked at every few seconds. */
export interface Sample {
  readonly hours: number;
  /** MB of memory that the process holds. */
  readonly rss: number;
  /** Open files and sockets. */
  readonly descriptors: number;
  /** What keeps the event loop of the service alive. */
  readonly handles: number;
  /** Milliseconds; of the good calls since the last sample that no flood had to wait for. */
  readonly p99: number;
  readonly processorShare: number;
  readonly isFlooded: boolean;
}

export const FIGURES = ['rss', 'descriptors', 'handles', 'p99'] as const;
export type FigureName = (typeof FIGURES)[number];

/** Resident MB and open descriptors of a process, out of /proc. */
export function processFigures(pid: number): { rss: number; descriptors: number; cpuSecs: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const rss = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? NaN) / 1000;
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? [];
  // Clock ticks, of which Linux has 100 in a second.
  const cpuSecs = (Number(stat[11]) + Number(stat[12])) / 100;
  return { rss, descriptors: readdirSync(`/proc/${pid}/fd`).length, cpuSecs };
}

/** The sum of a metric over its labels. */
export function sumOf(metrics: string, name: string): number {
  const values = metrics
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
  return values.reduce((sum, value) => sum + value, 0);
}
