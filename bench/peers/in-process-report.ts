import { median } from '../measure/statistics.js';

/** What one verdict takes. */
export interface VerdictCost {
  /** The median, by the clock. */
  readonly microseconds: number;
  /** Of processor time of all threads, in µs: the mean. */
  readonly cpu: number;
}

/** What the process of a system of the same kind reports, by depth. */
export type InProcessReport = readonly (VerdictCost & { readonly depth: number })[];

/** Depths and time that such a process is told. */
export interface InProcessJob {
  readonly depths: readonly number[];
  readonly milliseconds: number;
}

/** The job in the arguments of this process. */
export const readJob = (): InProcessJob => JSON.parse(process.argv[2] ?? '') as InProcessJob;

/** What an operation takes that is repeated, after as long a warm-up. */
export async function timeRepeated(operate: () => unknown, milliseconds: number): Promise<VerdictCost> {
  const samples: number[] = [];
  let before = process.cpuUsage();
  for (const isWarmUp of [true, false]) {
    before = process.cpuUsage();
    const end = performance.now() + milliseconds;
    do {
      const start = performance.now();
      await operate();
      if (!isWarmUp) samples.push((performance.now() - start) * 1000);
    } while (performance.now() < end);
  }
  const { user, system } = process.cpuUsage(before);
  return { microseconds: median(samples), cpu: (user + system) / samples.length };
}
