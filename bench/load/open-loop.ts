import type { Histogram } from 'hdr-histogram-js';
import { decodeLatencies } from '../measure/latencies.js';
import { pinned, SPLIT } from '../run/cores.js';
import { program } from '../run/paths.js';
import type { Workload } from '../workload/workload.js';
import type { Arrivals } from './arrivals.js';
import type { LoadResult, Target } from './load-result.js';
import type { Recovered } from './open-loop-core.js';
import { runProgram } from './run-program.js';

/** The job of the generator's process. */
export interface OpenLoopJob extends Target {
  readonly workload: Workload;
  /** Mean number of requests per second. */
  readonly rate: number;
  readonly arrivals: Arrivals;
  /** The seed of random arrivals. */
  readonly seed: number;
  readonly threads: number;
  /** How long requests are sent before those that count, so that the generator's own code is compiled. */
  readonly warmUpSeconds: number;
  /** Milliseconds after the intended send time at which a client gives up and closes its connection; `null`: never. */
  readonly patienceMs: number | null;
  /** Whether 503 and 429 count as refusals instead of wrong answers. */
  readonly mayRefuse: boolean;
  /** The load that follows at once, to find out when the service is back to normal. */
  readonly recovery: { readonly rate: number; readonly seconds: number } | null;
}

/** Its answer; histograms as text. */
export interface OpenLoopReport {
  /** In ns of the system's monotonic clock, which all processes share. */
  readonly startedAt: string;
  /** µs after the start. */
  readonly lastAnswerAt: number;
  readonly answered: number;
  readonly refused: number;
  readonly timedOut: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly latencies: string;
  readonly refusals: string;
  readonly recovery: readonly Recovered[];
  readonly sendDelays: string;
  readonly connectionWaits: string;
}

/** What the open-loop generator measured. */
export interface OpenLoopResult extends LoadResult {
  readonly startedAt: bigint;
  /** Time from the start to the last answer. */
  readonly elapsedSeconds: number;
  readonly refused: number;
  readonly timedOut: number;
  /** Latencies of refusals, counted from the intended send time. */
  readonly refusals: Histogram;
  readonly recovery: readonly Recovered[];
  /** How late the generator was: the time from when a request was due and a connection free. */
  readonly sendDelays: Histogram;
  /** How long due requests waited for a free connection. */
  readonly connectionWaits: Histogram;
}

/** The settings of an open loop. All but the rate and the target have defaults. */
export type OpenLoopTarget = Target & { readonly rate: number } & Partial<Omit<OpenLoopJob, 'workload'>>;

/**
 * More connections than are busy at once below saturation, so that requests wait in the service, not for a connection.
 */
export const OPEN_LOOP_CONNECTIONS = 64;

/**
 * Runs an open loop: each request is sent at its time, whether or not earlier ones have been answered. A latency counts
 * from the intended send time. So a stall counts for every request that should have been sent meanwhile (no coordinated
 * omission). The generator has cores of its own: start the service on those of {@link SPLIT}.
 */
export async function runOpenLoop(workload: Workload, target: OpenLoopTarget): Promise<OpenLoopResult> {
  const job: OpenLoopJob = {
    threads: SPLIT?.generator.length ?? 1,
    ...{ arrivals: 'even', seed: 1, warmUpSeconds: 1 },
    ...{ patienceMs: null, mayRefuse: false, recovery: null },
    ...target,
    workload,
  };
  const { output, processorTime } = await runProgram(
    ...pinned(SPLIT?.generator ?? null, process.execPath, [
      // Otherwise V8's helper threads take cores from the service, in bursts that show in the high percentiles.
      '--single-threaded',
      program('load/open-loop-process.js'),
      JSON.stringify(job),
    ]),
  );
  const report = JSON.parse(output) as OpenLoopReport;
  return {
    seconds: target.seconds,
    elapsedSeconds: report.lastAnswerAt / 1e6,
    ...{ requests: report.answered, refused: report.refused, timedOut: report.timedOut },
    ...{ wrong: report.wrong, firstWrong: report.firstWrong },
    latencies: decodeLatencies(report.latencies),
    refusals: decodeLatencies(report.refusals),
    recovery: report.recovery,
    sendDelays: decodeLatencies(report.sendDelays),
    connectionWaits: decodeLatencies(report.connectionWaits),
    startedAt: BigInt(report.startedAt),
    generatorTime: processorTime,
  };
}
