import type { Tool } from '../run/plan.js';
import type { Better, Parameters } from '../run/results.js';
import type { ServerProcess } from '../service/start.js';
import type { Bench } from '../run/suite.js';
import type { Workload } from '../workload/workload.js';
import { runAutocannon } from './autocannon.js';
import { checkAnswers } from './check-answers.js';
import type { LoadResult } from './load-result.js';
import { runWrk, wrkVersion } from './wrk.js';

/** One closed-loop measurement. */
export interface ClosedLoop {
  readonly id: string;
  readonly parameters: Parameters;
  readonly server: ServerProcess;
  /** Whether the server has the metrics of the service, which count requests better than a generator can. */
  readonly hasMetrics: boolean;
  readonly tool: Tool;
  readonly workload: Workload;
  readonly connections: number;
  readonly seconds: number;
}

/** The result of a closed loop. */
export interface ClosedLoopResult extends LoadResult {
  /** Processor time of the server for a request, in µs; `null` if it is not known. */
  readonly cpu: number | null;
}

/** Uses wrk if it is installed, since it takes the least processor time from the service. */
export const bestTool = (): Tool => (wrkVersion() === null ? 'autocannon' : 'wrk');

// The bundles are sent in a loop. A bundle may enter the cache the second time it is sent, and a few are still there
// the third time.
const MAX_COLD_HITS = 0.01;

/**
 * Runs a load against a server and records throughput, latencies and processor time per request. A run with a wrong
 * answer is recorded as such, which makes everything void.
 */
export async function measureClosedLoop(bench: Bench, loop: ClosedLoop): Promise<ClosedLoopResult> {
  const { id, server, tool, workload, connections, seconds } = loop;
  const parameters = { ...loop.parameters, bodyBytes: workload.bodyBytes };
  const { recorder } = bench;
  const before = await countersOf(loop);
  const timeBefore = server.processorTime();
  const run = tool === 'wrk' ? runWrk : runAutocannon;
  const result = await bench.watch(id, server.pids, () =>
    run(workload, { port: server.port, connections, seconds }),
  );
  const timeAfter = server.processorTime();
  const after = await countersOf(loop);
  bench.workloads.advance(workload, result.requests + connections);
  recorder.blame(id, result.wrong, result.firstWrong);
  const hits = after.hits - before.hits;
  const requests = after.verdicts - before.verdicts || result.requests;
  const maxHits = MAX_COLD_HITS * requests * workload.depth;
  if (workload.traffic === 'cold' && hits > maxHits) {
    const found = `${hits} of ${requests * workload.depth} receipts were found in the cache`;
    recorder.skip(id, `not cold: ${found}, expected at most ${Math.floor(maxHits)}`);
    return { ...result, cpu: null };
  }
  recorder.record({
    ...{ id: `${id}/throughput`, unit: '1/s', better: 'higher', parameters },
    value: result.requests / result.seconds,
  });
  recorder.recordLatencies(id, result.latencies, parameters);
  if (result.uncorrected !== undefined) {
    const value = result.uncorrected.getValueAtPercentile(99);
    recorder.record({ id: `${id}/p99-uncorrected`, unit: 'µs', better: 'neither', value, parameters });
  }
  const time = (name: string, better: Better, microseconds: number) =>
    recorder.record({ id: `${id}/${name}`, unit: 'µs', better, parameters, value: microseconds / requests });
  let cpu: number | null = null;
  if (timeBefore !== null && timeAfter !== null) {
    time('cpu', 'lower', timeAfter.total - timeBefore.total);
    cpu = (timeAfter.total - timeBefore.total) / requests;
    checkArithmetic(bench, loop, cpu);
    // The main thread's share depends on how much the workers take over. Only the sum of both can be compared.
    time('main-thread-cpu', 'neither', timeAfter.mainThread - timeBefore.mainThread);
  }
  if (result.generatorTime !== null) {
    const value = result.generatorTime / requests;
    recorder.record({ id: `${id}/generator-cpu`, unit: 'µs', better: 'neither', value, parameters });
  }
  if (workload.traffic === 'malformed' && after.signatures > before.signatures) {
    recorder.skip(id, `${after.signatures - before.signatures} malformed requests had a signature verified`);
  }
  return { ...result, cpu };
}

// Samples of the floor vary, and so does the cost of signatures of different messages.
const TOLERANCE = 0.9;

/** Blames a measurement in which a request took less time than its signatures: that is impossible. */
function checkArithmetic(
  { plan, recorder }: Bench,
  { id, workload, hasMetrics }: ClosedLoop,
  cpu: number,
): void {
  if (!hasMetrics || (workload.traffic !== 'warm' && workload.traffic !== 'cold')) return;
  const min = (workload.traffic === 'warm' ? 1 : workload.depth + 1) * recorder.floor;
  // The floor is not known while the services are warmed up.
  if (Number.isNaN(min) || cpu >= TOLERANCE * min) return;
  const found = `${cpu.toFixed(1)} µs of processor time, less than the ${min.toFixed(1)} µs of its signatures`;
  // In CI, a busy machine must not fail the build.
  if (plan.mode === 'smoke') recorder.notes.push(`${id}: impossible: ${found}`);
  else recorder.blame(id, 1, `no wrong answer, but an impossible figure: ${found}`);
}

async function countersOf({ server, hasMetrics }: ClosedLoop) {
  if (!hasMetrics) return { verdicts: 0, hits: 0, signatures: 0 };
  const [verdicts, hits, signatures] = await Promise.all([
    server.metric('drs_verify_verifications_total{'),
    server.metric('drs_receipt_cache_lookups_total{result="hit"}'),
    server.metric('drs_signatures_total{'),
  ]);
  return { verdicts, hits, signatures };
}

/**
 * Checks the answers of a server exactly, and warms it up.
 *
 * @param mayRefuse whether the server sheds load; then refused requests are sent again
 */
export async function prime(
  bench: Bench,
  server: ServerProcess,
  depth: number,
  { mayRefuse = false }: { readonly mayRefuse?: boolean } = {},
): Promise<void> {
  // Warm bundles, also before cold traffic: cold bundles that are sent here could still be cached in a fast run.
  const exchanges = bench.workloads.warm(depth);
  const { wrong, firstWrong } = await checkAnswers(server.port, exchanges, mayRefuse);
  bench.recorder.blame(`the first requests at depth ${depth}`, wrong, firstWrong);
}
