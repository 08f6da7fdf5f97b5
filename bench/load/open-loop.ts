import type { Histogram } from 'hdr-histogram-js';
import { decodeLatencies } from '../measure/statistics.js';
import { pinned, SPLIT } from '../run/cores.js';
import { program, runProgram } from '../run/programs.js';
import type { Workload } from '../workload/workload.js';
import type { Arrivals, Recovered } from './open-loop-core.js';

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
  readonly threads: number;
  /** How long requests are sent before those that count, so that the generator's own code is compiled. */
  readonly warmUpSeconds: number;
  /** Milliseconds after which a client gives up, closes its connection and comes back on a new one; `null`: never. */
  readonly patienceMs: number | null;
  /** An answer that takes longer is of no use. Default: Envoy's time-out of `ext_authz`. */
  readonly goodMs: number;
  /** Whether 503 and 429 count as refusals instead of wrong answers. */
  readonly mayRefuse: boolean;
  /** The load that follows at once, to find out when the service is back to normal. */
  readonly recovery: { readonly rate: number; readonly seconds: number } | null;
}

interface Counts {
  readonly answered: number;
  readonly good: number;
  readonly refused: number;
  readonly timedOut: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly recovery: readonly Recovered[];
}

/** Its answer; histograms as text. */
export interface OpenLoopReport extends Counts {
  /** In ns of the system's monotonic clock, which all processes share. */
  readonly startedAt: string;
  /** µs after the start. */
  readonly lastAnswerAt: number;
  readonly latencies: string;
  readonly refusals: string;
  readonly sendDelays: string;
  readonly connectionWaits: string;
}

/** What the generator measured. */
export interface OpenLoopResult extends LoadResult, Counts {
  readonly startedAt: bigint;
  /** Time from the end of the warm-up to the last answer. */
  readonly elapsedSeconds: number;
  /** Latencies of refusals, counted from the intended send time. */
  readonly refusals: Histogram;
  /** How late the generator was: the time from when a request was due and a connection free. */
  readonly sendDelays: Histogram;
  /** How long due requests waited for a free connection. */
  readonly connectionWaits: Histogram;
}

/** More connections than are busy at once below saturation: requests wait in the service, not for a connection. */
export const OPEN_LOOP_CONNECTIONS = 64;
/** Envoy's default time-out of `ext_authz`. */
export const GOOD_MS = 200;

const DEFAULTS: Omit<OpenLoopJob, 'workload' | 'threads' | keyof Target> = {
  ...{ rate: 0, arrivals: 'even', seed: 1, clients: null, warmUpSeconds: 1 },
  ...{ patienceMs: null, goodMs: GOOD_MS, mayRefuse: false, recovery: null },
};

/**
 * Runs an open loop: each request is sent at its time, whether or not earlier ones have been answered. A latency counts
 * from the intended send time. So a stall counts for every request that should have been sent meanwhile (no coordinated
 * omission). With `clients` it is a closed loop. The generator has cores of its own: start the service on those of
 * {@link SPLIT}.
 */
export async function runOpenLoop(
  workload: Workload,
  target: Target & Partial<Omit<OpenLoopJob, 'workload'>>,
): Promise<OpenLoopResult> {
  const job: OpenLoopJob = { threads: SPLIT?.generator.length ?? 1, ...DEFAULTS, ...target, workload };
  const { output } = await runProgram(
    ...pinned(SPLIT?.generator ?? null, process.execPath, [
      // Otherwise V8's helper threads take cores from the service, in bursts that show in the high percentiles.
      ...['--single-threaded', program('load/open-loop-process.js'), JSON.stringify(job)],
    ]),
  );
  const { latencies, refusals, sendDelays, connectionWaits, ...report } = JSON.parse(
    output,
  ) as OpenLoopReport;
  return {
    ...{ ...report, seconds: target.seconds, requests: report.answered, startedAt: BigInt(report.startedAt) },
    elapsedSeconds: report.lastAnswerAt / 1e6 - job.warmUpSeconds,
    ...{ latencies: decodeLatencies(latencies), refusals: decodeLatencies(refusals) },
    ...{ sendDelays: decodeLatencies(sendDelays), connectionWaits: decodeLatencies(connectionWaits) },
  };
}
