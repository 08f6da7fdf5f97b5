import type { Plan } from './plan.js';
import type { Recorder } from './recorder.js';
import type { Workloads } from '../workload/workload.js';

/** What a suite works with. */
export interface Bench {
  readonly plan: Plan;
  readonly recorder: Recorder;
  readonly workloads: Workloads;
  /**
   * Measures something of a server while the machine is watched: what is recorded next is compared with the floor of
   * this very time, and what others did meanwhile is kept under `id`.
   */
  readonly watch: <Value>(
    id: string,
    pids: number | readonly number[],
    measure: () => Promise<Value>,
  ) => Promise<Value>;
  /** Prints what is being measured. */
  readonly say: (what: string) => void;
}

/** A group of figures. Its name is the first part of their ids. */
export interface Suite {
  readonly name: string;
  /** One line for `--list`. */
  readonly about: string;
  /** Whether each run is to have a process of its own; then `run` sees a plan of one run. */
  readonly isIsolated?: boolean;
  readonly run: (bench: Bench) => Promise<void>;
}
