import { median } from '../measure/statistics.js';

/** The cost of one verdict. */
export interface VerdictCost {
  /** The median of the elapsed time. */
  readonly microseconds: number;
  /** The mean processor time of all threads, in µs. */
  readonly cpu: number;
}

/** The report of a process that runs another authorization system, by depth. */
export type InProcessReport = readonly (VerdictCost & { readonly depth: number })[];

/** The job of such a process. */
export interface InProcessJob {
  readonly depths: readonly number[];
  readonly milliseconds: number;
}

/** Reads the job from the arguments of this process. */
export const readJob = (): InProcessJob => JSON.parse(process.argv[2] ?? '') as InProcessJob;

/** Measures an operation by repeating it, after a warm-up of the same length. */
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
