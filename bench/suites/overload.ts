import { measureCapacity } from '../load/capacity.js';
import { prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type OpenLoopResult } from '../load/open-loop.js';
import { backToNormalAfter, recoveryAfter } from '../load/recovery.js';
import { HealthProbe } from '../measure/health-probe.js';
import type { Better, Parameters } from '../run/results.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

const DEPTH = 4;
const CONNECTIONS = 1_000;
const FACTORS = [1, 2, 3] as const;
const PATIENCE_MS = 1_000;
/** Offered right after three times the capacity, to see when the service is back to normal. */
const RECOVERY = { share: 0.5, seconds: 2 } as const;
/** p99 of a service that is back to normal is at most this, in µs. */
const NORMAL_MICROS = 50_000;

/** More traffic than the service can serve. */
export const overload: Suite = {
  name: 'overload',
  about:
    'goodput, latency of what is accepted and refused, /healthz and memory at 1, 2 and 3 times the capacity',
  run: async (bench) => {
    const { plan, workloads } = bench;
    for (const [workers, workerEnv] of [
      ['default', {}],
      ['0', { WORKER_THREADS: '0' }],
    ] as const) {
      const env = {
        ...workerEnv,
        RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES),
        BUSY_POLL_MICROSECS: '0',
        QUEUE_TARGET_MS: '20',
      };
      for (let run = 1; run <= plan.overloadRuns; run++) {
        // Capacity is measured without shedding.
        const unshed = { ...env, QUEUE_TARGET_MS: '60000' };
        const capacity = await withService(bench, unshed, (server) =>
          measureCapacity(workloads, () => workloads.files('cold', DEPTH), {
            ...{ port: server.port, connections: OPEN_LOOP_CONNECTIONS },
          }),
        );
        const parameters = {
          ...{ workers, depth: DEPTH, traffic: 'cold', connections: CONNECTIONS },
          seconds: plan.overloadSeconds,
        };
        const id = `overload/w-${workers}/capacity`;
        bench.recorder.measureFloor();
        bench.recorder.record({ id, unit: '1/s', better: 'higher', value: capacity, parameters });
        const goodputs: number[] = [];
        for (const factor of FACTORS) {
          const id = `overload/w-${workers}/x${factor}`;
          goodputs.push(
            await withService(bench, env, (server) =>
              measure(bench, server, { id, capacity, factor, parameters: { ...parameters, factor } }),
            ),
          );
        }
        bench.recorder.record({
          ...{ id: `overload/w-${workers}/goodput-of-peak`, unit: 'ratio', better: 'higher' },
          // Compared with the best that was seen: without shedding, or in one of the cases.
          value: (goodputs.at(-1) ?? 0) / Math.max(capacity, ...goodputs),
          parameters,
        });
      }
    }
  },
};

/** Starts a service for one case, so that no case affects the next one. */
async function withService<Value>(
  bench: Bench,
  env: Readonly<Record<string, string>>,
  use: (server: ServerProcess) => Promise<Value>,
): Promise<Value> {
  const server = await startService(env);
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

/** @returns correct answers per second */
async function measure(
  bench: Bench,
  server: ServerProcess,
  { id, capacity, factor, parameters }: Case,
): Promise<number> {
  const { plan, recorder, workloads, say } = bench;
  const rate = Math.round(factor * capacity);
  const recovery =
    factor === FACTORS.at(-1) ? { rate: RECOVERY.share * capacity, seconds: RECOVERY.seconds } : null;
  const workload = workloads.files('cold', DEPTH);
  const probe = new HealthProbe(server);
  const result = await bench.watch(id, server.pid, () =>
    runOpenLoop(workload, {
      ...{ port: server.port, connections: CONNECTIONS, rate, arrivals: 'poisson', seed: rate },
      ...{ seconds: plan.overloadSeconds, patienceMs: PATIENCE_MS, mayRefuse: true, recovery },
    }),
  );
  workloads.advance(workload, rate * (plan.overloadSeconds + 1 + RECOVERY.seconds));
  await probe.stop();
  recorder.blame(id, result.wrong, result.firstWrong);
  const record = (name: string, unit: string, better: Better, value: number) =>
    recorder.record({ id: `${id}/${name}`, unit, better, value, parameters });
  const perSecond = (count: number) => count / plan.overloadSeconds;
  record('offered', '1/s', 'neither', rate);
  record('goodput', '1/s', 'higher', perSecond(result.requests));
  record('refused', '1/s', 'neither', perSecond(result.refused));
  record('timed-out', '1/s', 'lower', perSecond(result.timedOut));
  if (result.requests > 0) recorder.recordLatencies(id, result.latencies, parameters);
  if (result.refused > 0) {
    record('refusal-p99', 'µs', 'neither', result.refusals.getValueAtPercentile(99));
    // Without the time by which the generator itself was late.
    record('refusal-since-sent-p99', 'µs', 'lower', result.refusalsSinceSent.getValueAtPercentile(99));
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
  record('healthz-longest', 'µs', 'lower', probe.latencies.maxValue);
  record('healthz-p50', 'µs', 'lower', probe.latencies.getValueAtPercentile(50));
  record('healthz-failed', 'count', 'lower', probe.failed);
  record('resident-highest', 'bytes', 'lower', probe.highestResident);
  record('send-delay-p99', 'µs', 'neither', result.sendDelays.getValueAtPercentile(99));
  say(`${id}: ${describe(result, rate, plan.overloadSeconds)}, ${probe.describe()}`);
  return perSecond(result.requests);
}

function describe({ requests, refused, timedOut, latencies }: OpenLoopResult, rate: number, seconds: number) {
  const p99 = requests > 0 ? `${(latencies.getValueAtPercentile(99) / 1000).toFixed(0)} ms` : 'none';
  return (
    `${rate}/s offered, ${Math.round(requests / seconds)} good, ${Math.round(refused / seconds)} refused, ` +
    `${Math.round(timedOut / seconds)} timed out; p99 of accepted ${p99}`
  );
}
