import type { Histogram } from 'hdr-histogram-js';
import { availableParallelism } from 'node:os';
import { decodeLatencies } from '../measure/latencies.js';
import { program } from '../paths.js';
import type { Workload } from '../workload/workload.js';
import type { LoadResult, Target } from './load-result.js';
import { runProgram } from './run-program.js';

/** What the generator's process is told. */
export interface OpenLoopJob extends Target {
  readonly workload: Workload;
  /** Requests a second, evenly spaced. */
  readonly rate: number;
  readonly threads: number;
  /** For how long requests are sent before those that count, for the generator's own code to be compiled. */
  readonly warmUpSeconds: number;
}

/** What it answers. Request n was meant to leave n / rate seconds after `startedAt`. */
export interface OpenLoopReport {
  /** Of the system's monotonic clock, which all processes share, in ns. */
  readonly startedAt: string;
  readonly requests: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly latencies: string;
  readonly sendDelays: string;
}

/** What the open-loop generator saw. */
export interface OpenLoopResult extends LoadResult {
  readonly startedAt: bigint;
  /** From the intended to the actual send time: how late the generator itself was, or had no free connection. */
  readonly sendDelays: Histogram;
}

/** More than answer at once below saturation, so that requests wait in the service and not for a connection. */
export const OPEN_LOOP_CONNECTIONS = 64;

/**
 * Open loop: requests leave at a constant rate whether or not the earlier ones are answered, and a latency counts from
 * the intended send time. So a stall counts for every request that should have been sent meanwhile (no coordinated
 * omission).
 */
export async function runOpenLoop(
  workload: Workload,
  target: Omit<OpenLoopJob, 'workload' | 'threads' | 'warmUpSeconds'> & {
    readonly threads?: number;
    readonly warmUpSeconds?: number;
  },
): Promise<OpenLoopResult> {
  const threads = target.threads ?? Math.max(1, Math.floor(availableParallelism() / 4));
  const { warmUpSeconds = 1 } = target;
  const job: OpenLoopJob = { workload, ...target, threads, warmUpSeconds };
  const { output, processorTime } = await runProgram(process.execPath, [
    // Else the engine's helper threads take the cores from the service, in bursts that show in the tail.
    '--single-threaded',
    program('load/open-loop-process.js'),
    JSON.stringify(job),
  ]);
  const report = JSON.parse(output) as OpenLoopReport;
  return {
    seconds: target.seconds,
    requests: report.requests,
    wrong: report.wrong,
    firstWrong: report.firstWrong,
    latencies: decodeLatencies(report.latencies),
    sendDelays: decodeLatencies(report.sendDelays),
    startedAt: BigInt(report.startedAt),
    generatorTime: processorTime,
  };
}
