import { availableParallelism } from 'node:os';
import { runGrpc } from '../load/grpc.js';
import { checkAnswers, measureCapacity, prime } from '../load/measure-load.js';
import { runOpenLoop, type OpenLoopResult } from '../load/open-loop.js';
import { HealthProbe } from '../measure/health-probe.js';
import { describeSplit, SPLIT } from '../run/cores.js';
import type { Bench, Suite } from '../run/suite.js';
import { DEFAULT_QUEUE, startService, type ServerProcess } from '../service/start.js';
import { COLD_CACHE_BYTES, gateCalls, gateWorkloads } from '../workload/workload.js';

const SERVICE_CORES = SPLIT?.service ?? null;
const DEPTH = 4;
const CONNECTIONS = 1_000;
const FACTORS = [1, 2, 3] as const;
const PATIENCE_MS = 1_000;
const COLD = { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) };

/** More traffic than the service can serve. */
export const overload: Suite = {
  name: 'overload',
  about:
    'goodput, refusals, latency, /healthz and memory at 1, 2 and 3 times the capacity; bursts and crowds',
  run: async (bench) => {
    const { plan, recorder } = bench;
    recorder.notes.push(`overload: ${describeSplit()}`);
    const cores = SPLIT?.service.length ?? availableParallelism();
    for (let run = 1; run <= Math.min(2, plan.runs); run++) {
      for (const crowd of CROWDS) await measureCrowd(bench, crowd);
      for (const workers of new Set([Math.max(1, cores - 1), 0])) await measureFactors(bench, workers);
    }
  },
};

/** Offers one, two and three times the capacity, to a new service each. */
async function measureFactors(bench: Bench, workers: number): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const env = { ...COLD, ...DEFAULT_QUEUE, WORKER_THREADS: String(workers), BUSY_POLL_MICROSECS: '0' };
  const withService = async <Value>(
    limits: Readonly<Record<string, string>>,
    use: (server: ServerProcess) => Promise<Value>,
  ): Promise<Value> => {
    const server = await startService({ ...env, ...limits }, { cores: SERVICE_CORES });
    try {
      await prime(bench, server, DEPTH, { mayRefuse: true });
      return await use(server);
    } finally {
      await server.stop();
    }
  };
  const base = `overload/w-${workers === 0 ? '0' : 'some'}`;
  recorder.measureFloor();
  const capacity = await withService({ QUEUE_BURST_MS: '60000' }, (server) =>
    measureCapacity(bench, workloads.files('cold', DEPTH), server),
  );
  recorder.record(`${base}/capacity`, capacity, { workers });
  for (const factor of FACTORS) {
    const id = `${base}/x${factor}`;
    const parameters = { workers, factor, depth: DEPTH, traffic: 'cold', connections: CONNECTIONS };
    const rate = Math.round(factor * capacity);
    await withService({}, async (server) => {
      const workload = workloads.files('cold', DEPTH);
      const probe = new HealthProbe(server);
      const offer = () =>
        runOpenLoop(workload, {
          ...{ port: server.port, connections: CONNECTIONS, rate, arrivals: 'poisson', seed: rate },
          ...{ seconds: plan.overloadSeconds, patienceMs: PATIENCE_MS, mayRefuse: true },
        });
      const result = await bench.watch(id, server.pids, offer, SERVICE_CORES);
      workloads.advance(workload, rate * (plan.overloadSeconds + 1));
      await probe.stop();
      recorder.blame(id, result.wrong, result.firstWrong);
      const perSecond = (count: number) => count / plan.overloadSeconds;
      recorder.record(`${id}/goodput`, perSecond(result.requests), parameters);
      recorder.record(`${id}/goodput-of-capacity`, perSecond(result.requests) / capacity, parameters, [
        'ratio',
        'higher',
      ]);
      recorder.record(`${id}/refused`, perSecond(result.refused), parameters, ['1/s', 'neither']);
      recorder.record(`${id}/timed-out`, perSecond(result.timedOut), parameters, ['1/s', 'lower']);
      recorder.recordLatencies(id, result.latencies, parameters);
      const health = probe.latencies.getValueAtPercentile(99);
      recorder.record(`${id}/healthz-p99`, health, parameters, ['µs', 'lower']);
      recorder.record(`${id}/resident-highest`, probe.highestResident, parameters, ['bytes', 'lower']);
      say(
        `${id}: ${rate}/s offered, ${Math.round(perSecond(result.requests))} good, ` +
          `${Math.round(perSecond(result.refused))} refused, ${Math.round(perSecond(result.timedOut))} timed out; ${probe.describe()}`,
      );
    });
  }
}

/** Clients that keep the service busy without a queue that matters. */
const PEAK_CLIENTS = 64;
/** How long a few clients ask before a warm crowd comes: the code is compiled by then, and the receipts are known. */
const WARM_UP_SECONDS = 3;
/** Time for the last answers of a burst. */
const BURST_SECONDS = 10;

/** Who asks, and how. Each client waits for its answer before it asks again; in a burst it asks once. */
interface Crowd {
  readonly name: string;
  readonly clients: number;
  readonly traffic: 'warm' | 'cold';
  readonly isBurst?: boolean;
  readonly patienceMs?: number;
  readonly way?: 'gate' | 'grpc';
}

const CROWDS: readonly Crowd[] = [
  { name: 'burst-200-cold', clients: 200, traffic: 'cold', isBurst: true },
  { name: 'burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true },
  { name: 'loop-512-warm', clients: 512, traffic: 'warm' },
  { name: 'loop-256-cold', clients: 256, traffic: 'cold' },
  { name: 'giving-up-1000-warm', clients: 1000, traffic: 'warm', patienceMs: 200 },
  { name: 'gate-burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true, way: 'gate' },
  { name: 'grpc-burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true, way: 'grpc' },
];

type Fared = Pick<OpenLoopResult, 'requests' | 'refused' | 'latencies' | 'wrong' | 'firstWrong'> & {
  readonly timedOut: number;
  readonly seconds: number;
};

/** Measures how a burst or a crowd of clients fares, with a service of its own on all cores. */
async function measureCrowd(bench: Bench, crowd: Crowd): Promise<void> {
  const { plan, recorder, say, workloads } = bench;
  const { name, clients, traffic, isBurst = false } = crowd;
  const id = `overload/${name}`;
  const server = await startService({
    ...{ ...DEFAULT_QUEUE, GATE_REPLAY: 'off', GRPC_PORT: '0' },
    // A burst right after the start finds an empty cache of any size.
    ...(traffic === 'cold' && !isBurst ? COLD : {}),
  });
  try {
    if (traffic === 'warm') {
      const { wrong, firstWrong } = await checkAnswers(server.port, workloads.warm(DEPTH), true);
      recorder.blame(`the first requests of ${name}`, wrong, firstWrong);
      await ask(bench, server, { ...crowd, clients: PEAK_CLIENTS, isBurst: false }, WARM_UP_SECONDS);
    }
    const probe = new HealthProbe(server);
    const seconds = isBurst ? BURST_SECONDS : plan.overloadSeconds;
    const fared = await bench.watch(id, server.pids, () => ask(bench, server, crowd, seconds));
    await probe.stop();
    const parameters = { traffic, clients, depth: DEPTH };
    const refused = fared.refused / (fared.requests + fared.refused + fared.timedOut);
    recorder.record(`${id}/refused`, refused, parameters);
    recorder.record(`${id}/goodput`, fared.requests / fared.seconds, parameters);
    recorder.recordLatencies(id, fared.latencies, parameters);
    recorder.blame(id, fared.wrong, fared.firstWrong);
    say(`${id}: ${(100 * refused).toFixed(1)} % refused, ${fared.timedOut} gave up, ${probe.describe()}`);
  } finally {
    await server.stop();
  }
}

/** Lets a crowd ask a service. */
async function ask(
  { workloads }: Bench,
  server: ServerProcess,
  crowd: Crowd,
  seconds: number,
): Promise<Fared> {
  const { clients, traffic, patienceMs = null, isBurst = false, way } = crowd;
  if (way === 'grpc') {
    const result = await runGrpc(gateCalls(workloads, DEPTH), DEPTH, {
      ...{ port: server.grpcPort ?? 0, connections: clients, seconds },
      requestsEach: isBurst ? 1 : Infinity,
    });
    return { ...result, timedOut: 0 };
  }
  const workload = way === 'gate' ? gateWorkloads(workloads, DEPTH).gate : workloads.files(traffic, DEPTH);
  const result = await runOpenLoop(workload, {
    ...{ port: server.port, connections: clients, seconds, warmUpSeconds: 0, patienceMs, mayRefuse: true },
    clients: { requests: isBurst ? clients : null },
  });
  workloads.advance(workload, result.requests + result.refused + result.timedOut + clients);
  return result;
}
