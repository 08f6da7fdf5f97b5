import { GOOD_MS, runCrowd, type CrowdResult } from '../load/crowd.js';
import { runGrpc } from '../load/grpc.js';
import { HealthProbe } from '../measure/health-probe.js';
import type { Better } from '../run/results.js';
import type { Bench } from '../run/suite.js';
import { checkAnswers } from '../load/check-answers.js';
import { DEFAULT_QUEUE, startService, type ServerProcess } from '../service/start.js';
import { gateCalls, gateWorkloads } from '../workload/gate.js';
import { COLD_CACHE_BYTES, type Workload } from '../workload/workload.js';

const DEPTH = 4;
/** Clients that keep the service busy without a queue that matters. */
const PEAK_CLIENTS = 64;
/** How long a few clients ask before a warm crowd comes: the code is compiled by then, and the receipts are known. */
const WARM_UP_SECONDS = 3;
/** Time for the last answers of a burst. */
const BURST_SECONDS = 10;

/** Who asks, and how. */
interface Crowd {
  readonly name: string;
  readonly clients: number;
  readonly traffic: 'warm' | 'cold';
  readonly isBurst?: boolean;
  readonly patienceMs?: number;
  readonly way?: 'verify' | 'gate' | 'grpc';
}

const CROWDS: readonly Crowd[] = [
  { name: 'burst-200-cold', clients: 200, traffic: 'cold', isBurst: true },
  { name: 'burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true },
  { name: 'burst-1000-cold', clients: 1000, traffic: 'cold', isBurst: true },
  { name: 'loop-512-warm', clients: 512, traffic: 'warm' },
  { name: 'loop-1000-warm', clients: 1000, traffic: 'warm' },
  { name: 'loop-256-cold', clients: 256, traffic: 'cold' },
  { name: 'giving-up-1000-warm', clients: 1000, traffic: 'warm', patienceMs: GOOD_MS },
  { name: 'gate-burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true, way: 'gate' },
  { name: 'gate-loop-512-warm', clients: 512, traffic: 'warm', way: 'gate' },
  { name: 'grpc-burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true, way: 'grpc' },
  { name: 'grpc-loop-512-warm', clients: 512, traffic: 'warm', way: 'grpc' },
];

/** How a crowd fared, over any protocol. */
type Fared = Pick<
  CrowdResult,
  'answered' | 'good' | 'refused' | 'gaveUp' | 'broken' | 'wrong' | 'firstWrong'
> &
  Pick<CrowdResult, 'elapsedSeconds' | 'accepted'> & { readonly fastestRefusal: number | null };

/** Measures how bursts and crowds of clients fare, each with a service of its own. */
export async function measureCrowds(bench: Bench): Promise<void> {
  for (const crowd of CROWDS) await measure(bench, crowd);
}

async function measure(bench: Bench, crowd: Crowd): Promise<void> {
  const { plan, recorder } = bench;
  const { name, clients, traffic, patienceMs, isBurst = false } = crowd;
  const id = `overload/${name}`;
  const isCold = traffic === 'cold';
  // On all cores, with its default number of workers.
  const server = await startService({
    ...DEFAULT_QUEUE,
    ...{ GATE_REPLAY: 'off', GRPC_PORT: '0' },
    // A burst right after the start finds an empty cache of any size.
    ...(isCold && !isBurst ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {}),
  });
  try {
    if (!isCold) await warmUp(bench, server, crowd);
    const seconds = isBurst ? BURST_SECONDS : plan.overloadSeconds;
    const peak = () => ask(bench, server, { ...crowd, clients: PEAK_CLIENTS }, plan.seconds);
    const before = patienceMs === undefined ? null : await peak();
    const probe = new HealthProbe(server);
    const fared = await bench.watch(id, server.pid, () => ask(bench, server, crowd, seconds));
    await probe.stop();
    const parameters = { traffic, clients, depth: DEPTH, seconds };
    const record = (figure: string, unit: string, better: Better, value: number) =>
      recorder.record({ id: `${id}/${figure}`, unit, better, value, parameters });
    const all = fared.answered + fared.refused + fared.gaveUp + fared.broken;
    record('refused', 'ratio', 'lower', fared.refused / all);
    record('goodput', '1/s', 'higher', fared.good / fared.elapsedSeconds);
    if (fared.fastestRefusal !== null) record('fastest-refusal', 'µs', 'neither', fared.fastestRefusal);
    if (before !== null) {
      const after = await peak();
      const rates = [before, after].map(({ answered, elapsedSeconds }) => answered / elapsedSeconds);
      const mean = ((rates[0] ?? 0) + (rates[1] ?? 0)) / 2;
      record('goodput-of-peak', 'ratio', 'higher', fared.good / fared.elapsedSeconds / mean);
    }
    record('healthz-p99', 'µs', 'lower', probe.latencies.getValueAtPercentile(99));
    recorder.recordLatencies(id, fared.accepted, parameters);
    recorder.blame(id, fared.wrong, fared.firstWrong);
    bench.say(
      `${id}: ${((100 * fared.refused) / all).toFixed(1)} % refused, ${fared.gaveUp} gave up, ${fared.broken} broken, ` +
        `${Math.round(fared.good / fared.elapsedSeconds)} /s in time, ` +
        `p99 of accepted ${Math.round(fared.accepted.getValueAtPercentile(99) / 1000)} ms, ${probe.describe()}`,
    );
  } finally {
    await server.stop();
  }
}

async function warmUp(bench: Bench, server: ServerProcess, crowd: Crowd): Promise<void> {
  const { recorder, workloads } = bench;
  const { wrong, firstWrong } = await checkAnswers(server.port, workloads.warm(DEPTH), true);
  recorder.blame(`the first requests of ${crowd.name}`, wrong, firstWrong);
  const few = { ...crowd, clients: PEAK_CLIENTS, isBurst: false };
  await ask(bench, server, few, WARM_UP_SECONDS);
}

/** Lets a crowd ask a service. */
async function ask(
  { workloads }: Bench,
  server: ServerProcess,
  { clients, traffic, patienceMs, isBurst = false, way = 'verify' }: Crowd,
  seconds: number,
): Promise<Fared> {
  if (way === 'grpc') {
    const result = await runGrpc(gateCalls(workloads, DEPTH), DEPTH, {
      ...{ port: server.grpcPort ?? 0, connections: clients, seconds },
      requestsEach: isBurst ? 1 : Infinity,
    });
    const { requests, good, latencies, refused, wrong, firstWrong } = result;
    return {
      ...{ answered: requests - wrong, good, refused, gaveUp: 0, broken: 0, wrong, firstWrong },
      ...{ elapsedSeconds: result.seconds, accepted: latencies, fastestRefusal: null },
    };
  }
  const workload: Workload =
    way === 'gate' ? gateWorkloads(workloads, DEPTH).gate : workloads.files(traffic, DEPTH);
  const result = await runCrowd({
    ...{ port: server.port, workload, clients, seconds, patienceMs: patienceMs ?? null },
    requestsEach: isBurst ? 1 : null,
  });
  workloads.advance(workload, result.answered + result.refused + result.gaveUp);
  return {
    ...result,
    fastestRefusal: result.refused > 0 ? result.refusals.minNonZeroValue : null,
  };
}
