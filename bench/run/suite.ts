import type { Workloads } from '../workload/workload.js';
import type { Plan } from './options.js';
import type { Recorder } from './recorder.js';

export interface Bench {
  readonly plan: Plan;
  readonly recorder: Recorder;
  readonly workloads: Workloads;
  /**
   * Measures a server while the machine is watched. Samples that are recorded next are compared with the floor of the
   * same time, and what others had of the cores is recorded under `id`.
   *
   * @param cores on which the server runs, so that the floor is that of these cores; default: all
   */
  readonly watch: <Value>(
    id: string,
    pids: readonly number[],
    measure: () => Promise<Value>,
    cores?: readonly number[] | null,
  ) => Promise<Value>;
  readonly say: (what: string) => void;
}

/** A group of figures. Its name is the first part of their ids. */
export interface Suite {
  readonly name: string;
  readonly about: string;
  readonly run: (bench: Bench) => Promise<void>;
}
