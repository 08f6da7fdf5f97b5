import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { newLatencies } from '../measure/statistics.js';
import { runProgram, source } from '../run/programs.js';
import type { Workload } from '../workload/workload.js';
import type { LoadResult, Target } from './open-loop.js';

/** How often each latency occurred. */
export type Counts = readonly (readonly [microseconds: number, count: number])[];

interface WrkOutput {
  readonly durationUs: number;
  readonly requests: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly errors: number;
  readonly latencies: Counts;
}

/** The version of wrk, or `null` if it is not installed. */
export function wrkVersion(): string | null {
  const { error, stdout } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error === undefined ? (/^wrk (\S+)/.exec(stdout)?.[1] ?? 'unknown') : null;
}

/** Runs a closed loop with wrk: each connection sends its next request when the last one is answered. */
export async function runWrk(
  workload: Workload,
  { port, connections, seconds }: Target,
): Promise<LoadResult> {
  const threads = Math.min(connections, Math.max(1, Math.floor(availableParallelism() / 2)));
  const { output } = await runProgram('wrk', [
    ...['-t', String(threads), '-c', String(connections), '-d', `${Math.max(1, Math.round(seconds))}s`],
    // A late answer is a latency, not a wrong answer.
    ...['--timeout', '30s'],
    ...['-s', source('load/wrk.lua'), `http://127.0.0.1:${port}/`, '--'],
    ...[workload.coldEvery === 1 ? '' : workload.bodiesFile, workload.coldBodiesFile],
    ...[workload.coldEvery, workload.coldStart, threads].map(String),
    ...[workload.marker, workload.path ?? '/verify'],
  ]);
  const line = /^RESULT (.*)$/m.exec(output)?.[1];
  if (line === undefined) throw new Error(`wrk gave no result: ${output.slice(0, 2000)}`);
  const result = JSON.parse(line) as WrkOutput;
  // Integer arithmetic, like wrk.
  const interval = Math.floor(result.durationUs / Math.max(1, Math.floor(result.requests / connections)));
  const latencies = newLatencies();
  for (const [value, count] of uncorrect(result.latencies, interval))
    latencies.recordValueWithCount(value, count);
  return {
    ...{ seconds: result.durationUs / 1e6, requests: result.requests, latencies },
    wrong: result.wrong + result.errors,
    firstWrong: result.firstWrong || (result.errors > 0 ? 'a connection error or a time-out' : ''),
  };
}

/**
 * The latencies of the requests that were really sent. wrk corrects its own for coordinated omission (`stats_correct` in
 * wrk's stats.c): for each latency of at least two intervals, it adds those of the requests that would have been sent
 * meanwhile. Each is one interval shorter than the one before it, as long as it is longer than an interval. Open loops
 * measure that; a closed loop is to show what its clients saw.
 *
 * @param counts in ascending order
 * @param interval time between the requests of a connection, in µs
 */
export function uncorrect(counts: Counts, interval: number): Counts {
  const left = new Map(counts);
  // wrk adds values only to shorter latencies. So this goes from the longest latency down: each count that it reaches
  // has already lost what wrk added to it.
  for (const [value] of counts.toReversed()) {
    const count = left.get(value) ?? 0;
    if (value < 2 * interval || count === 0) continue;
    for (let added = value - interval; added > interval; added -= interval) {
      left.set(added, (left.get(added) ?? 0) - count);
    }
  }
  return [...left].filter(([, count]) => count > 0);
}
