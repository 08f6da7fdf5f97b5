import { Bench } from 'tinybench';
import { measureAllocations } from './allocations.js';

/** The cost of one call of an operation. */
export interface OperationCost {
  readonly microseconds: number;
  readonly bytes: number | null;
}

// With shorter batches, the cost of reading the clock would be measured too.
const BATCH_MICROSECONDS = 20;

/**
 * Times a synchronous operation: the median of tinybench's samples, each of as many calls as take some 20 µs.
 *
 * @param milliseconds how long to measure
 */
export function timeOperation(operate: () => unknown, milliseconds: number): number {
  const batch = Math.max(1, Math.ceil(BATCH_MICROSECONDS / roughMicroseconds(operate)));
  const bench = new Bench({
    time: milliseconds,
    warmupTime: milliseconds / 4,
    iterations: 10,
    warmupIterations: 5,
  });
  bench.add('operation', () => {
    for (let at = 0; at < batch; at++) sink = operate();
  });
  bench.runSync();
  const result = bench.tasks[0]?.result;
  if (result?.state !== 'completed')
    throw new Error(`an operation could not be timed: ${String(result?.state)}`);
  return (result.latency.p50 * 1000) / batch;
}

/** Times an operation and counts what it allocates. */
export async function costOf(operate: () => unknown, milliseconds: number): Promise<OperationCost> {
  const microseconds = timeOperation(operate, milliseconds);
  return { microseconds, bytes: await measureAllocations(operate) };
}

// Results are stored here, so that the compiler cannot remove an operation whose result is not used.
let sink: unknown;

/** The last result of a timed operation. */
export const lastResult = (): unknown => sink;

function roughMicroseconds(operate: () => unknown): number {
  const calls = 200;
  for (let at = 0; at < calls; at++) sink = operate();
  const start = performance.now();
  for (let at = 0; at < calls; at++) sink = operate();
  return Math.max(0.01, ((performance.now() - start) * 1000) / calls);
}
