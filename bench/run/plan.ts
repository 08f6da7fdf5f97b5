import type { Traffic } from '../workload/workload.js';

/** How much is measured. */
export type Mode = 'full' | 'quick' | 'smoke';

/** A load generator for closed loops. */
export type Tool = 'wrk' | 'autocannon';

/** The sizes of a run. The command line can change them. */
export interface Plan {
  readonly mode: Mode;
  /** Number of independent runs of each figure. A comparison needs four or more for a verdict. */
  readonly runs: number;
  /** Seconds of each closed-loop run. */
  readonly seconds: number;
  readonly floorSeconds: number;
  readonly depths: readonly number[];
  /** The depths for suites that do not use all depths: stages, mixed traffic, one and very many connections. */
  readonly coreDepths: readonly number[];
  readonly traffics: readonly Traffic[];
  readonly connections: readonly number[];
  /**
   * Whether to measure every combination of depth, traffic and connections. Otherwise only one of them varies at a
   * time.
   */
  readonly isGrid: boolean;
  /** Milliseconds for each in-process figure and run. */
  readonly inProcessMs: number;
  readonly openLoopSeconds: number;
  readonly openLoopDepths: readonly number[];
  /** Loads in percent of the closed-loop maximum. */
  readonly openLoopLoads: readonly number[];
  // For latency by chain depth: runs of each point, seconds of each run, loads in percent of the capacity.
  readonly latencyRuns: number;
  readonly latencySeconds: number;
  readonly latencyLoads: readonly number[];
  readonly overloadSeconds: number;
  readonly overloadRuns: number;
  readonly memoryVerdicts: number;
  readonly localEntries: number;
  readonly scrapeSeconds: number;
}

const DEPTHS = [1, 2, 3, 4, 8, 16];

const FULL: Plan = {
  mode: 'full',
  runs: 4,
  seconds: 1,
  floorSeconds: 0.1,
  depths: DEPTHS,
  coreDepths: [1, 2, 4, 16],
  traffics: ['warm', 'cold', 'mixed'],
  connections: [1, 8, 32, 128, 512],
  isGrid: false,
  inProcessMs: 60,
  openLoopSeconds: 3,
  openLoopDepths: [4],
  openLoopLoads: [25, 50, 75, 90],
  latencyRuns: 5,
  latencySeconds: 2,
  latencyLoads: [25, 50, 75],
  overloadSeconds: 10,
  overloadRuns: 1,
  memoryVerdicts: 200_000,
  localEntries: 10_000_000,
  scrapeSeconds: 3,
};

/** The plan of each mode. */
export const PLANS: Readonly<Record<Mode, Plan>> = {
  full: FULL,
  quick: {
    ...FULL,
    mode: 'quick',
    runs: 1,
    depths: [1, 4, 16],
    coreDepths: [4],
    connections: [1, 32, 128],
    inProcessMs: 60,
    openLoopSeconds: 1,
    openLoopLoads: [25, 50, 90],
    memoryVerdicts: 20_000,
    localEntries: 1_000_000,
    scrapeSeconds: 1,
  },
  smoke: {
    ...FULL,
    mode: 'smoke',
    runs: 1,
    depths: [1, 4],
    coreDepths: [1, 4],
    traffics: ['warm', 'cold'],
    connections: [32],
    inProcessMs: 60,
  },
};
