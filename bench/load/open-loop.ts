import { fork, type ChildProcess } from 'node:child_process';
import type { Histogram } from 'hdr-histogram-js';
import { end } from '../../test/support/child.js';
import { decodeLatencies } from '../measure/statistics.js';
import { pinned, SPLIT, program } from '../run/programs.js';
import { CHECK, type Workload } from '../workload/workload.js';
import type { Arrivals, OpenLoopRules, Tally } from './open-loop-core.js';

export interface Target {
  readonly port: number;
  /** Default: this machine. */
  readonly host?: string | undefined;
  /** The header `Host`. */
  readonly authority?: string | undefined;
  readonly connections: number;
  readonly seconds: number;
}

export interface OpenLoopJob extends Target, Omit<OpenLoopRules, 'intended' | 'marker'> {
  readonly workload: Workload;
  readonly rate: number;
  readonly arrivals: Arrivals;
  readonly seed: number;
  /**
   * Instead of a rate: each connection is a client that sends its next request when it has an answer, `requests` in all
   * (`null`: as many as fit into the time).
   */
  readonly clients: { readonly requests: number | null } | null;
}

/** What is sent where; what is left out is as in {@link DEFAULTS}. */
export type Load = Target & Partial<Omit<OpenLoopJob, 'workload'>>;

const DEFAULTS: Omit<OpenLoopJob, 'workload' | keyof Target> = {
  ...{ rate: 0, arrivals: 'even', seed: 1, clients: null },
  ...{ warmUpSeconds: 1, patienceMs: null, closesGivenUp: true, mayRefuse: false },
};

/** What the generator's process says; histograms as text. `startedAt` is in ms of the clock that all processes share. */
export type OpenLoopReport = {
  readonly [Name in keyof Tally]: Tally[Name] extends Histogram ? string : Tally[Name];
} & { readonly startedAt: number };

/** What a load generator measured; `seconds` without the warm-up, up to the last answer. */
export type LoadResult = Readonly<Tally> & { readonly startedAt: number; readonly seconds: number };

/** More connections than are busy at once below saturation: requests wait in the service, not for a connection. */
export const OPEN_LOOP_CONNECTIONS = 64;

/** A process that sends requests, and keeps its connections from one job to the next. */
export class Generator {
  readonly #child: ChildProcess;

  /**
   * @param cores where it runs; `null`: anywhere
   * @param time ends it where it is aborted
   */
  constructor(cores: readonly number[] | null = null, time?: AbortSignal) {
    // Otherwise V8's helper threads take cores from the service, in bursts that show in the high percentiles.
    const [execPath, execArgv] = pinned(cores, process.execPath, ['--single-threaded']);
    const ending = { ...(time && { signal: time }), killSignal: 'SIGKILL' } as const;
    this.#child = fork(program('load/open-loop-process.js'), { execPath, execArgv, ...ending });
    if (time) this.#child.on('error', () => undefined);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async run(workload: Workload, load: Load): Promise<LoadResult> {
    const job: OpenLoopJob = { ...DEFAULTS, ...load, workload };
    const report = await new Promise<OpenLoopReport>((resolve, reject) => {
      const onEnd = (code: unknown) => reject(new Error(`the load generator ended with ${String(code)}`));
      this.#child.once('exit', onEnd);
      this.#child.once('message', (message) => {
        this.#child.off('exit', onEnd);
        resolve(message as OpenLoopReport);
      });
      this.#child.send(job);
    });
    return {
      ...{ ...report, seconds: report.lastAnswerAt / 1e6 - job.warmUpSeconds },
      latencies: decodeLatencies(report.latencies),
      serviceTimes: decodeLatencies(report.serviceTimes),
      sendDelays: decodeLatencies(report.sendDelays),
      connectionWaits: decodeLatencies(report.connectionWaits),
    };
  }

  /** Ends it. Its processor time is that of an ended child afterwards. */
  [Symbol.asyncDispose](): Promise<void> {
    return end(this.#child);
  }
}

/**
 * Runs an open loop: each request is sent at its time, whether or not earlier ones have been answered. A latency counts
 * from the intended send time. So a stall counts for every request that should have been sent meanwhile (no coordinated
 * omission). The generator has a core of its own: start the service on those of {@link SPLIT}.
 *
 * @param cores where the generator runs; `null`: anywhere
 */
export async function runOpenLoop(
  workload: Workload,
  load: Load,
  cores: readonly number[] | null = SPLIT?.generator ?? null,
): Promise<LoadResult> {
  await using generator = new Generator(cores);
  return await generator.run(workload, load);
}

/** A closed loop: each connection sends its next request when it has an answer. The scheduler places the generator. */
export const runClosedLoop = (workload: Workload, target: Target): Promise<LoadResult> =>
  runOpenLoop(
    workload,
    // grpc-js is much code, which is compiled first.
    { ...target, clients: { requests: null }, warmUpSeconds: workload.path === CHECK ? 2 : 0.3 },
    null,
  );
