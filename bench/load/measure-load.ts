import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench } from '../run/suite.js';
import type { ServerProcess } from '../service/start.js';
import type { Answered } from '../workload/chains.js';
import type { Workload } from '../workload/workload.js';
import { differenceOf, runCallers } from './callers.js';
import {
  OPEN_LOOP_CONNECTIONS,
  runClosedLoop,
  runOpenLoop,
  type LoadResult,
  type Target,
} from './open-loop.js';

export interface ClosedLoop {
  readonly id: string;
  readonly server: ServerProcess;
  /** Whether the server has the metrics of the service, which count requests better than a generator can. */
  readonly hasMetrics: boolean;
  readonly workload: Workload;
  readonly connections: number;
  readonly seconds: number;
}

// The bundles are sent in a loop. A bundle may enter the cache the second time it is sent, and a few are still there
// the third time.
const MAX_COLD_HITS = 0.01;

/**
 * Runs a closed loop against a server and records throughput, latencies and processor time per request. A run with a
 * wrong answer is recorded as such, which makes everything void.
 *
 * @returns also the processor time of the server for a request, in µs; `NaN` if it is not known
 */
export const measureClosedLoop = (bench: Bench, loop: ClosedLoop) =>
  bench.undisturbed(() => measureOnce(bench, loop));

async function measureOnce(bench: Bench, loop: ClosedLoop): Promise<LoadResult & { readonly cpu: number }> {
  const { id, server, workload, connections, seconds } = loop;
  const { recorder, say } = bench;
  const before = await countersOf(loop);
  const timeBefore = server.processorTime();
  const result = await bench.watch(id, server.pid, () =>
    runClosedLoop(workload, { port: server.portFor(workload), connections, seconds }),
  );
  const time = server.processorTime() - timeBefore;
  const after = await countersOf(loop);
  bench.workloads.advance(workload, result.answered + result.warmedUp + connections);
  recorder.blame(id, result.wrong, result.firstWrong);
  const hits = after.hits - before.hits;
  const requests = after.verdicts - before.verdicts || result.answered + result.warmedUp;
  const maxHits = MAX_COLD_HITS * requests * workload.depth;
  if (workload.traffic === 'cold' && hits > maxHits) {
    const found = `${hits} of ${requests * workload.depth} receipts were found in the cache`;
    recorder.skip(id, `not cold: ${found}, expected at most ${Math.floor(maxHits)}`);
    return { ...result, cpu: Number.NaN };
  }
  const rate = result.answered / result.seconds;
  recorder.record(`${id}/throughput`, rate);
  recorder.record(`${id}/body`, workload.bodyBytes);
  recorder.recordLatencies(id, result.latencies);
  const cpu = time / requests;
  if (!Number.isNaN(cpu)) {
    recorder.record(`${id}/cpu`, cpu);
    checkArithmetic(bench, loop, cpu);
  }
  say(`${id}: ${Math.round(rate)} /s, ${cpu.toFixed(0)} µs of processor time each`);
  return { ...result, cpu };
}

// Samples of the floor vary, and so does the cost of signatures of different messages.
const TOLERANCE = 0.9;

/** Blames a measurement in which a request took less time than its signatures: that is impossible. */
function checkArithmetic(
  { plan, recorder }: Bench,
  { id, workload: { traffic, depth }, hasMetrics }: ClosedLoop,
  cpu: number,
): void {
  if (!hasMetrics) return;
  const min = (traffic === 'warm' ? 1 : depth + 1) * recorder.floor;
  // The floor is not known while the services are warmed up.
  if (Number.isNaN(min) || cpu >= TOLERANCE * min) return;
  const found = `${cpu.toFixed(1)} µs of processor time, less than the ${min.toFixed(1)} µs of its signatures`;
  // In CI, a busy machine must not fail the build.
  if (plan.mode === 'smoke') recorder.notes.push(`${id}: impossible: ${found}`);
  else recorder.blame(id, 1, `no wrong answer, but an impossible figure: ${found}`);
}

async function countersOf({ server, hasMetrics }: ClosedLoop) {
  if (!hasMetrics) return { verdicts: 0, hits: 0 };
  return {
    verdicts: await server.metric('drs_verify_verifications_total'),
    hits: await server.metric('drs_receipt_cache_lookups_total', 'result="hit"'),
  };
}

/**
 * The number of requests per second that a service answers if another one is always waiting. The open-loop generator
 * itself measures it, because the generator's share of the cores decides what is left for the service.
 *
 * @throws Error if an answer is wrong
 */
export async function measureCapacity(
  { workloads }: Bench,
  workload: Workload,
  { port, host, authority }: Pick<Target, 'port' | 'host' | 'authority'>,
  cores?: readonly number[] | null,
): Promise<number> {
  const target = {
    ...{ port, host, authority, connections: OPEN_LOOP_CONNECTIONS, clients: { requests: null } },
    // On one core, compiling takes from the first two seconds half of what the service has.
    ...{ seconds: 2, warmUpSeconds: 2.5 },
  };
  const result = await runOpenLoop(workload, target, cores);
  workloads.advance(workload, result.answered + result.warmedUp + OPEN_LOOP_CONNECTIONS);
  if (result.wrong > 0) throw new Error(`wrong answers at capacity: ${result.firstWrong}`);
  return result.answered / result.seconds;
}

/** Checks the answers of a server exactly, and warms it up. */
export async function prime({ recorder, workloads }: Bench, { port }: ServerProcess, depth: number) {
  // Warm bundles, also before cold traffic: cold bundles that are sent here could still be cached in a fast run.
  const { wrong, firstWrong } = await checkAnswers(port, workloads.warm(depth));
  recorder.blame(`the first requests at depth ${depth}`, wrong, firstWrong);
}

const CHECKERS = 8;
/** The pause before a refused request is sent again, and how often it is sent again. */
const RETRY_MS = 50;
const MAX_RETRIES = 100;

/**
 * Sends each request once, eight at a time, and compares the answers to the letter. This also fills the cache with the
 * receipts and warms up the code. What is answered with 503 is sent again: a service that sheds load may refuse while its
 * code is still being compiled. Under load, 503 is a wrong answer, unless a suite says that it may come.
 */
export async function checkAnswers(port: number, exchanges: readonly Answered[]) {
  const left = exchanges.toReversed();
  const post = async (body: string, retries: number): Promise<string> => {
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${port}/verify`, { method: 'POST', headers, body });
    const text = `${response.status} ${await response.text()}`;
    if (response.status !== 503 || retries === 0) return text;
    await sleep(RETRY_MS);
    return post(body, retries - 1);
  };
  return runCallers(CHECKERS, Infinity, async () => {
    const exchange = left.pop();
    if (exchange === undefined) return null;
    const found = await post(exchange.body, MAX_RETRIES).catch((error: unknown) =>
      String((error as Error).cause ?? error),
    );
    return differenceOf(found, `200 ${exchange.answer}`);
  });
}
