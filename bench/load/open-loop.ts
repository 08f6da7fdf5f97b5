import type { Histogram } from 'hdr-histogram-js';
import { availableParallelism } from 'node:os';
import { decodeLatencies } from '../measure/latencies.js';
import { program } from '../run/paths.js';
import type { Workload } from '../workload/workload.js';
import type { Arrivals } from './arrivals.js';
import type { LoadResult, Target } from './load-result.js';
import type { Recovered } from './open-loop-core.js';
import { runProgram } from './run-program.js';

/** What the generator's process is told. */
export interface OpenLoopJob extends Target {
  readonly workload: Workload;
  /** Requests a second, in the mean. */
  readonly rate: number;
  readonly arrivals: Arrivals;
  /** Of the arrivals, where they are random. */
  readonly seed: number;
  readonly threads: number;
  /** For how long requests are sent before those that count, for the generator's own code to be compiled. */
  readonly warmUpSeconds: number;
  /** Milliseconds after the intended send time at which a client gives up and closes its connection; `null`: never. */
  readonly patienceMs: number | null;
  /** Whether 503 and 429 count as refusals, not as wrong answers. */
  readonly mayRefuse: boolean;
  /** What is sent right after the load, to see when the service is back to normal. */
  readonly recovery: { readonly rate: number; readonly seconds: number } | null;
}

/** What it answers; histograms as text. */
export interface OpenLoopReport {
  /** Of the system's monotonic clock, which all processes share, in ns. */
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
  readonly refusalsSinceSent: string;
  readonly recovery: readonly Recovered[];
  readonly sendDelays: string;
  readonly connectionWaits: string;
}

/** What the open-loop generator saw. */
export interface OpenLoopResult extends LoadResult {
  readonly startedAt: bigint;
  /** From the start to the last answer. */
  readonly elapsedSeconds: number;
  readonly refused: number;
  readonly timedOut: number;
  /** Since the intended send time. */
  readonly refusals: Histogram;
  /** Since the request left. */
  readonly refusalsSinceSent: Histogram;
  readonly recovery: readonly Recovered[];
  /** How late the generator itself was: since a request was due and a connection free. */
  readonly sendDelays: Histogram;
  /** How long requests that were due waited for a free connection. */
  readonly connectionWaits: Histogram;
}

/** What can be said of an open loop; the rest has defaults. */
export type OpenLoopTarget = Target & { readonly rate: number } & Partial<Omit<OpenLoopJob, 'workload'>>;

/** More than answer at once below saturation, so that requests wait in the service and not for a connection. */
export const OPEN_LOOP_CONNECTIONS = 64;

/**
 * Open loop: requests leave at their time whether or not the earlier ones are answered, and a latency counts from the
 * intended send time. So a stall counts for every request that should have been sent meanwhile (no coordinated
 * omission).
 */
export async function runOpenLoop(workload: Workload, target: OpenLoopTarget): Promise<OpenLoopResult> {
  const job: OpenLoopJob = {
    threads: Math.max(1, Math.floor(availableParallelism() / 4)),
    ...{ arrivals: 'even', seed: 1, warmUpSeconds: 1 },
    ...{ patienceMs: null, mayRefuse: false, recovery: null },
    ...target,
    workload,
  };
  const { output, processorTime } = await runProgram(process.execPath, [
    // Else the engine's helper threads take the cores from the service, in bursts that show in the tail.
    '--single-threaded',
    program('load/open-loop-process.js'),
    JSON.stringify(job),
  ]);
  const report = JSON.parse(output) as OpenLoopReport;
  return {
    seconds: target.seconds,
    elapsedSeconds: report.lastAnswerAt / 1e6,
    ...{ requests: report.answered, refused: report.refused, timedOut: report.timedOut },
    ...{ wrong: report.wrong, firstWrong: report.firstWrong },
    latencies: decodeLatencies(report.latencies),
    refusals: decodeLatencies(report.refusals),
    refusalsSinceSent: decodeLatencies(report.refusalsSinceSent),
    recovery: report.recovery,
    sendDelays: decodeLatencies(report.sendDelays),
    connectionWaits: decodeLatencies(report.connectionWaits),
    startedAt: BigInt(report.startedAt),
    generatorTime: processorTime,
  };
}
