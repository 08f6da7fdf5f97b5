import type { Histogram } from 'hdr-histogram-js';
import { decodeLatencies } from '../measure/latencies.js';
import { pinned, SPLIT } from '../run/cores.js';
import { program } from '../run/paths.js';
import type { Workload } from '../workload/workload.js';
import { runProgram } from './run-program.js';

/** A crowd of clients, each with a connection of its own, that wait for each answer before they send the next request. */
export interface CrowdJob {
  readonly port: number;
  readonly workload: Workload;
  readonly clients: number;
  /** Requests of each client: 1 is a burst. `null`: as many as fit into the time. */
  readonly requestsEach: number | null;
  readonly seconds: number;
  /** Milliseconds after which a client closes its connection and asks again over a new one; `null`: never. */
  readonly patienceMs: number | null;
  /** An answer that takes longer than this is of no use to a gateway. */
  readonly goodMs: number;
}

interface Counts {
  readonly elapsedSeconds: number;
  /** Right answers. */
  readonly answered: number;
  /** Right answers within {@link CrowdJob.goodMs}. */
  readonly good: number;
  /** Answers with status 503. */
  readonly refused: number;
  readonly gaveUp: number;
  /** Connections that the service closed, or that could not be opened. */
  readonly broken: number;
  readonly wrong: number;
  readonly firstWrong: string;
}

/** What the process of a crowd prints; histograms as text. */
export interface CrowdReport extends Counts {
  readonly accepted: string;
  readonly refusals: string;
}

/** What a crowd met. */
export interface CrowdResult extends Counts {
  /** Latencies of right answers. */
  readonly accepted: Histogram;
  readonly refusals: Histogram;
}

/** Envoy's default time-out of `ext_authz`. */
export const GOOD_MS = 200;

/** Lets a crowd ask, from the cores of the generator. */
export async function runCrowd(
  job: Pick<CrowdJob, 'port' | 'workload' | 'clients' | 'seconds'> & Partial<CrowdJob>,
): Promise<CrowdResult> {
  const whole: CrowdJob = { requestsEach: null, patienceMs: null, goodMs: GOOD_MS, ...job };
  const { output } = await runProgram(
    ...pinned(SPLIT?.generator ?? null, process.execPath, [
      '--single-threaded',
      program('load/crowd-process.js'),
      JSON.stringify(whole),
    ]),
  );
  const { accepted, refusals, ...counts } = JSON.parse(output) as CrowdReport;
  return { ...counts, accepted: decodeLatencies(accepted), refusals: decodeLatencies(refusals) };
}
