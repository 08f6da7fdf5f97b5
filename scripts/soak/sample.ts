import { readdirSync, readFileSync } from 'node:fs';

/** The values that are recorded every few seconds. */
export interface Sample {
  readonly hours: number;
  /** Resident memory in MB. */
  readonly rss: number;
  /** Open files and sockets. */
  readonly descriptors: number;
  /** What keeps the event loop of the service alive. */
  readonly handles: number;
  /**
   * p99 latency in milliseconds of the good calls since the last sample, without those that waited because of a flood.
   */
  readonly p99: number;
  /** How busy the cores of the service were. */
  readonly processorShare: number;
  /** Answers a second. */
  readonly rate: number;
  readonly isFlooded: boolean;
}

/** The values that must not grow. */
export const SERIES = ['rss', 'descriptors', 'handles', 'p99'] as const;
export type SeriesName = (typeof SERIES)[number];

/** Resident MB, open descriptors and processor time of a process, from /proc. */
export function processStats(pid: number): { rss: number; descriptors: number; cpuSecs: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const rss = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? NaN) / 1000;
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? [];
  // These are clock ticks. Linux has 100 per second.
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
