import { availableParallelism } from 'node:os';
import { measureCapacity } from '../load/capacity.js';
import { prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type OpenLoopResult } from '../load/open-loop.js';
import { backToNormalAfter, recoveryAfter } from '../load/recovery.js';
import { HealthProbe } from '../measure/health-probe.js';
import type { Better, Parameters } from '../run/results.js';
import { ServerProcess, startService } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

const DEPTH = 4;
const CONNECTIONS = 1_000;
const FACTORS = [1, 2, 3] as const;
const PATIENCE_MS = 1_000;
const CALIBRATION_SECONDS = 5;
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
        const parameters = {
          ...{ workers, depth: DEPTH, traffic: 'cold', connections: CONNECTIONS },
          seconds: plan.overloadSeconds,
        };
        const id = `overload/w-${workers}`;
        // Capacity is measured without shedding.
        const capacityOf = () =>
          withService(bench, { ...env, QUEUE_TARGET_MS: '60000' }, (server) =>
            bench.watch(`${id}/capacity`, server.pid, () =>
              measureCapacity(workloads, () => workloads.files('cold', DEPTH), {
                ...{ port: server.port, connections: OPEN_LOOP_CONNECTIONS },
              }),
            ),
          );
        const atSpeed = (rate: number) => rate / bench.recorder.speed;
        bench.recorder.measureFloor();
        const capacity = await capacityOf();
        const peaks = [atSpeed(capacity)];
        bench.recorder.record({
          ...{ id: `${id}/capacity`, unit: '1/s', better: 'higher', value: capacity, parameters },
        });
        let goodput = 0;
        for (const factor of FACTORS) {
          goodput = await withService(bench, env, async (server) => {
            const ofCase = {
              id: `${id}/x${factor}`,
              capacity,
              factor,
              parameters: { ...parameters, factor },
            };
            return atSpeed(await measure(bench, server, ofCase));
          });
          peaks.push(goodput);
        }
        peaks.push(atSpeed(await capacityOf()));
        bench.recorder.record({
          ...{ id: `${id}/goodput-of-peak`, unit: 'ratio', better: 'higher' },
          // The peak is the best rate that was seen: without shedding before and after, or in one of the cases. All rates
          // are relative to the speed of the machine at that time, which may change by half within a minute.
          value: goodput / Math.max(...peaks),
          parameters,
        });
        await calibrate(bench, id, workers === '0' ? 0 : availableParallelism() - 1, capacity, parameters);
      }
    }
  },
};

/** Measures how long a refusal takes because of the generator and the operating system alone, at the highest load of the suite. */
async function calibrate(
  { recorder, workloads }: Bench,
  id: string,
  workers: number,
  capacity: number,
  parameters: Parameters,
): Promise<void> {
  const env = { WORKERS: String(workers) };
  const server = await ServerProcess.start('service/refusing-process.js', { env });
  const rate = Math.round((FACTORS.at(-1) ?? 1) * capacity);
  try {
    const { refusalsSinceSent } = await runOpenLoop(workloads.files('cold', DEPTH), {
      ...{ port: server.port, connections: CONNECTIONS, rate, arrivals: 'poisson', seed: rate },
      ...{ seconds: CALIBRATION_SECONDS, patienceMs: PATIENCE_MS, mayRefuse: true },
    });
    recorder.record({
      ...{ id: `${id}/calibration/refusal-since-sent-p99`, unit: 'µs', better: 'neither', parameters },
      value: refusalsSinceSent.getValueAtPercentile(99),
    });
  } finally {
    await server.stop();
  }
}

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
  const waitsBefore = await socketWaits(server);
  const result = await bench.watch(id, server.pid, () =>
    runOpenLoop(workload, {
      ...{ port: server.port, connections: CONNECTIONS, rate, arrivals: 'poisson', seed: rate },
      ...{ seconds: plan.overloadSeconds, patienceMs: PATIENCE_MS, mayRefuse: true, recovery },
    }),
  );
  workloads.advance(workload, rate * (plan.overloadSeconds + 1 + RECOVERY.seconds));
  await probe.stop();
  const socketWait = socketWaitP99(waitsBefore, await socketWaits(server));
  recorder.blame(id, result.wrong, result.firstWrong);
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
    // What the service itself knows: a request lay in its socket for at most so long; a refusal follows at once.
    if (socketWait !== null) record('socket-wait-p99-at-most', 'µs', 'neither', socketWait);
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

const SOCKET_WAIT = /^drs_http_socket_wait_seconds_bucket\{le="([^"]+)"\} (\d+)/gm;

/** The service's own account: the bounds of the buckets in seconds, and how many requests were within each so far. */
async function socketWaits({ port }: ServerProcess): Promise<readonly (readonly [number, number])[]> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const found = [...text.matchAll(SOCKET_WAIT)];
  if (found.length === 0) throw new Error('/metrics has no drs_http_socket_wait_seconds');
  return found.map(([, bound, count]) => [bound === '+Inf' ? Infinity : Number(bound), Number(count)]);
}

/** @returns the bound in µs of the bucket that 99 % of the requests between two accounts are within; `null` if there is none */
function socketWaitP99(
  before: Awaited<ReturnType<typeof socketWaits>>,
  after: Awaited<ReturnType<typeof socketWaits>>,
): number | null {
  const within = after.map(([bound, count], at) => [bound, count - (before[at]?.[1] ?? 0)] as const);
  const all = within.at(-1)?.[1] ?? 0;
  const bound = within.find(([, count]) => count >= 0.99 * all)?.[0] ?? Infinity;
  return Number.isFinite(bound) ? 1e6 * bound : null;
}

function describe({ requests, refused, timedOut, latencies }: OpenLoopResult, rate: number, seconds: number) {
  const p99 = requests > 0 ? `${(latencies.getValueAtPercentile(99) / 1000).toFixed(0)} ms` : 'none';
  return (
    `${rate}/s offered, ${Math.round(requests / seconds)} good, ${Math.round(refused / seconds)} refused, ` +
    `${Math.round(timedOut / seconds)} timed out; p99 of accepted ${p99}`
  );
}
