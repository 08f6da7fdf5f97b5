import { mkdtempSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { median } from 'simple-statistics';
import { AT_ONCE, measureCapacity } from '../load/capacity.js';
import { prime } from '../load/measure-load.js';
import {
  OPEN_LOOP_CONNECTIONS,
  runOpenLoop,
  type OpenLoopResult,
  type OpenLoopTarget,
} from '../load/open-loop.js';
import { backToNormalAfter, recoveryAfter } from '../load/recovery.js';
import { HealthProbe } from '../measure/health-probe.js';
import { signatureShare } from '../measure/signature-share.js';
import { describeSplit, SPLIT } from '../run/cores.js';
import type { Better, Parameters } from '../run/results.js';
import { DEFAULT_QUEUE, startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { measureCrowds } from './crowds.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

const SERVICE_CORES = SPLIT?.service ?? null;
const DEPTH = 4;
const CONNECTIONS = 1_000;
const FACTORS = [1, 2, 3] as const;
const PATIENCE_MS = 1_000;
/** Samples of the goodput as a share of the peak, and the seconds of each. */
const PEAK = { samples: 6, seconds: 5 } as const;
/** The code is compiled in the first second. */
const FIRST_MICROS = 1e6;
/** Offered right after three times the capacity, to see when the service is back to normal. */
const RECOVERY = { share: 0.5, seconds: 2 } as const;
/** p99 of a service that is back to normal is at most this, in µs. */
const NORMAL_MICROS = 50_000;

/** More traffic than the service can serve. */
export const overload: Suite = {
  name: 'overload',
  about:
    'bursts, crowds and clients that give up; goodput, latency, /healthz and memory at 1, 2 and 3 times the capacity',
  run: async (bench) => {
    const { plan, recorder } = bench;
    recorder.notes.push(`overload: ${describeSplit()}`);
    for (let run = 1; run <= plan.overloadRuns; run++) await measureCrowds(bench);
    const cores = SPLIT?.service.length ?? availableParallelism();
    for (const [name, workers] of [
      ['some', Math.max(1, cores - 1)],
      ['0', 0],
    ] as const) {
      const env = {
        WORKER_THREADS: String(workers),
        RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES),
        BUSY_POLL_MICROSECS: '0',
        ...DEFAULT_QUEUE,
      };
      for (let run = 1; run <= plan.overloadRuns; run++) {
        const parameters = {
          ...{ workers, depth: DEPTH, traffic: 'cold', connections: CONNECTIONS },
          // A worker without a core of its own competes with the main thread, and says nothing about workers.
          areCoresEnough: SPLIT !== null && cores > workers ? 1 : 0,
          seconds: plan.overloadSeconds,
        };
        const id = `overload/w-${name}`;
        recorder.measureFloor();
        const capacity = await compareWithPeak(bench, env, id, parameters);
        for (const factor of FACTORS) {
          await withService(bench, env, (server) =>
            measure(bench, server, {
              ...{ id: `${id}/x${factor}`, capacity, factor },
              parameters: { ...parameters, factor },
            }),
          );
        }
      }
    }
  },
};

/**
 * Measures goodput under the highest load as a share of the peak. The speed of a machine may change by half within
 * seconds, so rates do not compare. But each verdict costs the same number of signatures: the goodput is measured as the
 * share of the time that goes into them, in a profile, with all requests served and with three times as many.
 *
 * @returns the capacity: requests per second without shedding
 */
async function compareWithPeak(
  bench: Bench,
  env: Readonly<Record<string, string>>,
  id: string,
  parameters: Parameters,
): Promise<number> {
  const { recorder } = bench;
  const capacities = [
    await withService(bench, { ...env, QUEUE_BURST_MS: '60000' }, ({ port }) =>
      measureCapacity(bench.workloads, () => bench.workloads.files('cold', DEPTH), {
        ...{ port, connections: OPEN_LOOP_CONNECTIONS },
      }),
    ),
  ];
  const ofPeak = `${id}/goodput-of-peak`;
  // A profile also counts the time in which a thread waits for its core.
  const samples = parameters['areCoresEnough'] === 1 ? PEAK.samples : 0;
  if (samples === 0) recorder.skip(ofPeak, 'a thread of the service has no core of its own');
  for (let sample = 1; sample <= samples; sample++) {
    const last = capacities.at(-1) ?? 0;
    const requests = Math.round(PEAK.seconds * last);
    const peak = await profiled(bench, { ...env, QUEUE_BURST_MS: '60000' }, id, {
      ...{ connections: OPEN_LOOP_CONNECTIONS, rate: AT_ONCE, seconds: requests / AT_ONCE, warmUpSeconds: 0 },
    });
    const capacity = peak.requests / peak.elapsedSeconds;
    capacities.push(capacity);
    const over = await profiled(bench, env, id, {
      ...{
        connections: CONNECTIONS,
        rate: Math.round((FACTORS.at(-1) ?? 1) * capacity),
        arrivals: 'poisson',
      },
      ...{ seed: sample, seconds: PEAK.seconds, warmUpSeconds: 0, patienceMs: PATIENCE_MS, mayRefuse: true },
    });
    recorder.record({
      ...{ id: ofPeak, unit: 'ratio', better: 'higher', parameters },
      // Signatures that were verified for clients that gave up are no goodput.
      value: (over.share * over.requests) / (over.requests + over.timedOut) / peak.share,
    });
  }
  const value = median(capacities);
  recorder.record({ id: `${id}/capacity`, unit: '1/s', better: 'higher', value, parameters });
  return value;
}

/** Runs a load against a service with a profiler. `share`: see {@link signatureShare}, without the first second. */
async function profiled(
  { recorder, workloads }: Bench,
  env: Readonly<Record<string, string>>,
  id: string,
  target: Omit<OpenLoopTarget, 'port'>,
): Promise<OpenLoopResult & { readonly share: number }> {
  const directory = mkdtempSync(path.join(workloads.directory, 'profile-'));
  const server = await startService(env, {
    cores: SERVICE_CORES,
    nodeArgs: ['--cpu-prof', '--cpu-prof-interval', '500', `--cpu-prof-dir=${directory}`],
  });
  const workload = workloads.files('cold', DEPTH);
  let result: OpenLoopResult;
  try {
    result = await runOpenLoop(workload, { ...target, port: server.port });
  } finally {
    await server.stop();
  }
  workloads.advance(workload, result.requests + result.refused + target.connections);
  recorder.blame(id, result.wrong, result.firstWrong);
  const start = Number(result.startedAt / 1000n);
  const end = start + Math.min(PEAK.seconds, result.elapsedSeconds) * 1e6;
  return { ...result, share: signatureShare(directory, start + FIRST_MICROS, end) };
}

/** Starts a service for one case, so that no case affects the next one. */
async function withService<Value>(
  bench: Bench,
  env: Readonly<Record<string, string>>,
  use: (server: ServerProcess) => Promise<Value>,
): Promise<Value> {
  const server = await startService(env, { cores: SERVICE_CORES });
  try {
    await prime(bench, server, DEPTH, { mayRefuse: true });
    return await use(server);
  } finally {
    await server.stop();
  }
}

interface Case {
  readonly id: string;
  readonly capacity: number;
  readonly factor: number;
  readonly parameters: Parameters;
}

async function measure(
  bench: Bench,
  server: ServerProcess,
  { id, capacity, factor, parameters }: Case,
): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const rate = Math.round(factor * capacity);
  const recovery =
    factor === FACTORS.at(-1) ? { rate: RECOVERY.share * capacity, seconds: RECOVERY.seconds } : null;
  const record = (name: string, unit: string, better: Better, value: number) =>
    recorder.record({ id: `${id}/${name}`, unit, better, value, parameters });
  if (recovery !== null) {
    // What the same service refuses of this load before there was too much of it.
    const half = workloads.files('cold', DEPTH);
    const { refused } = await runOpenLoop(half, {
      ...{ port: server.port, connections: CONNECTIONS, arrivals: 'poisson', seed: rate, ...recovery },
      ...{ patienceMs: PATIENCE_MS, mayRefuse: true },
    });
    workloads.advance(half, recovery.rate * (recovery.seconds + 1));
    record('failed-before', 'count', 'neither', refused);
  }
  const workload = workloads.files('cold', DEPTH);
  const probe = new HealthProbe(server);
  const result = await bench.watch(
    id,
    server.pid,
    () =>
      runOpenLoop(workload, {
        ...{ port: server.port, connections: CONNECTIONS, rate, arrivals: 'poisson', seed: rate },
        ...{ seconds: plan.overloadSeconds, patienceMs: PATIENCE_MS, mayRefuse: true, recovery },
      }),
    SERVICE_CORES,
  );
  workloads.advance(workload, rate * (plan.overloadSeconds + 1 + RECOVERY.seconds));
  await probe.stop();
  recorder.blame(id, result.wrong, result.firstWrong);
  const perSecond = (count: number) => count / plan.overloadSeconds;
  record('offered', '1/s', 'neither', rate);
  record('goodput', '1/s', 'higher', perSecond(result.requests));
  record('refused', '1/s', 'neither', perSecond(result.refused));
  record('timed-out', '1/s', 'lower', perSecond(result.timedOut));
  if (result.requests > 0) recorder.recordLatencies(id, result.latencies, parameters);
  if (result.refused > 0) {
    record('refusal-p99', 'µs', 'neither', result.refusals.getValueAtPercentile(99));
  }
  if (recovery !== null) {
    record(
      'back-to-normal',
      'µs',
      'lower',
      backToNormalAfter(result.recovery, NORMAL_MICROS, recovery.seconds),
    );
    const { failed, p99 } = recoveryAfter(result.recovery, 1e6);
    record('failed-after-1s', 'count', 'lower', failed);
    if (p99 !== null) record('p99-after-1s', 'µs', 'lower', p99);
  }
  record('healthz-longest', 'µs', 'neither', probe.latencies.maxValue);
  record('healthz-p99', 'µs', 'lower', probe.latencies.getValueAtPercentile(99));
  record('healthz-p50', 'µs', 'lower', probe.latencies.getValueAtPercentile(50));
  record('healthz-failed', 'count', 'lower', probe.failed);
  record('resident-highest', 'bytes', 'lower', probe.highestResident);
  record('send-delay-p99', 'µs', 'neither', result.sendDelays.getValueAtPercentile(99));
  say(`${id}: ${describe(result, rate, plan.overloadSeconds)}, ${probe.describe()}`);
}

function describe({ requests, refused, timedOut, latencies }: OpenLoopResult, rate: number, seconds: number) {
  const p99 = requests > 0 ? `${(latencies.getValueAtPercentile(99) / 1000).toFixed(0)} ms` : 'none';
  return (
    `${rate}/s offered, ${Math.round(requests / seconds)} good, ${Math.round(refused / seconds)} refused, ` +
    `${Math.round(timedOut / seconds)} timed out; p99 of accepted ${p99}`
  );
}
