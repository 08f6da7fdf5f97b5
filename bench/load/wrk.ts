import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { newLatencies } from '../measure/latencies.js';
import { source } from '../paths.js';
import type { Workload } from '../workload/workload.js';
import type { LoadResult, Target } from './load-result.js';
import { runProgram } from './run-program.js';

interface WrkOutput {
  readonly durationUs: number;
  readonly requests: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly errors: number;
  readonly latencies: readonly (readonly [microseconds: number, count: number])[];
}

/** The version of wrk, or `null` where it is not installed. */
export function wrkVersion(): string | null {
  const { error, stdout } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error === undefined ? (/^wrk (\S+)/.exec(stdout)?.[1] ?? 'unknown') : null;
}

/**
 * Closed loop by wrk: each connection sends its next request when the last is answered. wrk corrects its latencies for
 * coordinated omission by the mean interval of a connection.
 */
export async function runWrk(
  workload: Workload,
  { port, connections, seconds }: Target,
): Promise<LoadResult> {
  const threads = Math.min(connections, Math.max(1, Math.floor(availableParallelism() / 2)));
  const { output, processorTime } = await runProgram('wrk', [
    ...['-t', String(threads), '-c', String(connections), '-d', `${Math.max(1, Math.round(seconds))}s`],
    ...['-s', source('load/wrk.lua'), `http://127.0.0.1:${port}/verify`, '--'],
    ...[workload.coldEvery === 1 ? '' : workload.bodiesFile, workload.coldBodiesFile],
    ...[workload.coldEvery, workload.coldStart, threads].map(String),
    workload.marker,
  ]);
  const line = /^RESULT (.*)$/m.exec(output)?.[1];
  if (line === undefined) throw new Error(`wrk gave no result: ${output.slice(0, 2000)}`);
  const result = JSON.parse(line) as WrkOutput;
  const latencies = newLatencies();
  for (const [value, count] of result.latencies) latencies.recordValueWithCount(value, count);
  return {
    seconds: result.durationUs / 1e6,
    requests: result.requests,
    latencies,
    wrong: result.wrong + result.errors,
    firstWrong: result.firstWrong || (result.errors > 0 ? 'a connection error or a time-out' : ''),
    generatorTime: processorTime,
  };
}
