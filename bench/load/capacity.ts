import type { Workloads, Workload } from '../workload/workload.js';
import { runOpenLoop } from './open-loop.js';

/** For a first guess, and for the compilers of both sides. */
const FIRST_REQUESTS = 2_000;
/** All requests are due at once, so that a connection never waits for one. */
const AT_ONCE = 1e9;
const SECONDS = 1.5;

/**
 * The requests a second that a service answers when there is always another one waiting: measured by the open-loop
 * generator itself, since its share of the cores is part of what is left to the service.
 *
 * @throws Error if an answer is wrong
 */
export async function measureCapacity(
  workloads: Workloads,
  workloadOf: () => Workload,
  { port, connections }: { readonly port: number; readonly connections: number },
): Promise<number> {
  const measure = async (requests: number) => {
    const workload = workloadOf();
    const result = await runOpenLoop(workload, {
      ...{ port, connections, rate: AT_ONCE, seconds: requests / AT_ONCE, warmUpSeconds: 0 },
    });
    workloads.advance(workload, requests);
    if (result.wrong > 0) throw new Error(`wrong answers at capacity: ${result.firstWrong}`);
    return result.requests / result.elapsedSeconds;
  };
  const guess = await measure(FIRST_REQUESTS);
  return measure(Math.max(FIRST_REQUESTS, Math.round(guess * SECONDS)));
}
