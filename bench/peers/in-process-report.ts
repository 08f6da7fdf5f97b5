import { median } from '../measure/statistics.js';

/** What the process of a system of the same kind reports: µs for each verdict, by depth. */
export type InProcessReport = readonly { readonly depth: number; readonly microseconds: number }[];

/** Depths and time that such a process is told. */
export interface InProcessJob {
  readonly depths: readonly number[];
  readonly milliseconds: number;
}

/** The job in the arguments of this process. */
export const readJob = (): InProcessJob => JSON.parse(process.argv[2] ?? '') as InProcessJob;

/** Median time of an operation that is repeated, in µs, after as long a warm-up. */
export async function timeRepeated(operate: () => unknown, milliseconds: number): Promise<number> {
  const samples: number[] = [];
  for (const isWarmUp of [true, false]) {
    const end = performance.now() + milliseconds;
    do {
      const start = performance.now();
      await operate();
      if (!isWarmUp) samples.push((performance.now() - start) * 1000);
    } while (performance.now() < end);
  }
  return median(samples);
}
