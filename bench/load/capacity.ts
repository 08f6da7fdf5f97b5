import type { Workloads, Workload } from '../workload/workload.js';
import { runOpenLoop } from './open-loop.js';

/** For a first guess, and to let both sides compile their code. */
const FIRST_REQUESTS = 2_000;
/** As a rate: all requests are due at once, so that a connection never waits for one. */
export const AT_ONCE = 1e9;
const SECONDS = 1.5;

/**
 * The number of requests per second that a service answers if another one is always waiting. The open-loop generator
 * itself measures it, because the generator's share of the cores decides what is left for the service.
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
