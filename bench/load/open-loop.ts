import type { Histogram } from 'hdr-histogram-js';
import { decodeLatencies } from '../measure/statistics.js';
import { pinned, SPLIT } from '../run/cores.js';
import { program, runProgram } from '../run/programs.js';
import type { Workload } from '../workload/workload.js';
import type { Arrivals } from './open-loop-core.js';

/** Where and how to send. */
export interface Target {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
}

/** What a load generator measured. */
export interface LoadResult {
  readonly seconds: number;
  /** Answered within the time. */
  readonly requests: number;
  readonly latencies: Histogram;
  /** Number of wrong answers, broken connections and requests without an answer. */
  readonly wrong: number;
  /** The first of them, for a person. */
  readonly firstWrong: string;
}

/** The job of the generator's process. */
export interface OpenLoopJob extends Target {
  readonly workload: Workload;
  /** Mean number of requests per second. */
  readonly rate: number;
  readonly arrivals: Arrivals;
  /** The seed of random arrivals. */
  readonly seed: number;
  /**
   * Instead of a rate: each connection is a client that sends its next request when it has an answer, `requests` in all
   * (`null`: as many as fit into the time).
   */
  readonly clients: { readonly requests: number | null } | null;
  /** How long requests are sent before those that count, so that the generator's own code is compiled. */
  readonly warmUpSeconds: number;
  /** Milliseconds after which a client gives up, closes its connection and comes back on a new one; `null`: never. */
  readonly patienceMs: number | null;
  /** Whether 503 and 429 count as refusals instead of wrong answers. */
  readonly mayRefuse: boolean;
}

interface Counts {
  /** Answered within the time. */
  readonly answered: number;
  readonly refused: number;
  readonly timedOut: number;
  readonly wrong: number;
  readonly firstWrong: string;
}

/** Its answer; histograms as text. */
export interface OpenLoopReport extends Counts {
  /** In ns of the system's monotonic clock, which all processes share. */
  readonly startedAt: string;
  /** µs after the start. */
  readonly lastAnswerAt: number;
  readonly latencies: string;
  readonly sendDelays: string;
  readonly connectionWaits: string;
}

/** What the generator measured. */
export interface OpenLoopResult extends LoadResult, Counts {
  readonly startedAt: bigint;
  /** How late the generator was: the time from when a request was due and a connection free. */
  readonly sendDelays: Histogram;
  /** How long due requests waited for a free connection. */
  readonly connectionWaits: Histogram;
}

/** More connections than are busy at once below saturation: requests wait in the service, not for a connection. */
export const OPEN_LOOP_CONNECTIONS = 64;

const DEFAULTS: Omit<OpenLoopJob, 'workload' | keyof Target> = {
  ...{
    rate: 0,
    arrivals: 'even',
    seed: 1,
    clients: null,
    warmUpSeconds: 1,
    patienceMs: null,
    mayRefuse: false,
  },
};

/**
 * Runs an open loop: each request is sent at its time, whether or not earlier ones have been answered. A latency counts
 * from the intended send time. So a stall counts for every request that should have been sent meanwhile (no coordinated
 * omission). The generator has a core of its own: start the service on those of {@link SPLIT}.
 *
 * @param cores where the generator runs; `null`: anywhere
 */
export async function runOpenLoop(
  workload: Workload,
  target: Target & Partial<Omit<OpenLoopJob, 'workload'>>,
  cores: readonly number[] | null = SPLIT?.generator ?? null,
): Promise<OpenLoopResult> {
  const job: OpenLoopJob = { ...DEFAULTS, ...target, workload };
  const { output } = await runProgram(
    ...pinned(cores, process.execPath, [
      // Otherwise V8's helper threads take cores from the service, in bursts that show in the high percentiles.
      ...['--single-threaded', program('load/open-loop-process.js'), JSON.stringify(job)],
    ]),
  );
  const { latencies, sendDelays, connectionWaits, ...report } = JSON.parse(output) as OpenLoopReport;
  return {
    ...{ ...report, requests: report.answered, startedAt: BigInt(report.startedAt) },
    // Without the warm-up, up to the last answer.
    seconds: report.lastAnswerAt / 1e6 - job.warmUpSeconds,
    latencies: decodeLatencies(latencies),
    ...{ sendDelays: decodeLatencies(sendDelays), connectionWaits: decodeLatencies(connectionWaits) },
  };
}

/** A closed loop: each connection sends its next request when it has an answer. The scheduler places the generator. */
export function runClosedLoop(
  workload: Workload,
  { port, connections, seconds }: Target,
): Promise<OpenLoopResult> {
  const clients = { requests: null };
  return runOpenLoop(workload, { port, connections, seconds, clients, warmUpSeconds: 0.3 }, null);
}
