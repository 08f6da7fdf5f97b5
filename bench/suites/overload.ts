import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { measureCapacity } from '../load/capacity.js';
import { prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type OpenLoopResult } from '../load/open-loop.js';
import { newLatencies } from '../measure/latencies.js';
import type { Better, Parameters } from '../results.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../suite.js';
import { COLD_CACHE_BYTES } from '../workload/workload.js';

const DEPTH = 4;
const CONNECTIONS = 1_000;
const FACTORS = [1, 2, 3] as const;
const PATIENCE_MS = 1_000;
const PROBE_EVERY_MS = 100;
const PROBE_PATIENCE_MS = 10_000;
const PAGE_BYTES = 4096;

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
        // What it can do when nothing is shed.
        const unshed = { ...env, QUEUE_TARGET_MS: '60000' };
        const capacity = await withService(bench, unshed, (server) =>
          measureCapacity(workloads, () => workloads.files('cold', DEPTH), {
            ...{ port: server.port, connections: OPEN_LOOP_CONNECTIONS },
          }),
        );
        const parameters = { workers, depth: DEPTH, traffic: 'cold', connections: CONNECTIONS };
        const id = `overload/w-${workers}/capacity`;
        bench.recorder.measureFloor();
        bench.recorder.record({ id, unit: '1/s', better: 'higher', value: capacity, parameters });
        for (const factor of FACTORS) {
          await withService(bench, env, (server) =>
            measure(bench, server, `overload/w-${workers}/x${factor}`, Math.round(factor * capacity), {
              ...parameters,
              factor,
            }),
          );
        }
      }
    }
  },
};

/** Each case has a service of its own: what one left behind is not the next one's. */
async function withService<Value>(
  bench: Bench,
  env: Readonly<Record<string, string>>,
  use: (server: ServerProcess) => Promise<Value>,
): Promise<Value> {
  const server = await startService(env);
  try {
    await prime(bench, server, DEPTH, true);
    return await use(server);
  } finally {
    await server.stop();
  }
}

async function measure(
  bench: Bench,
  server: ServerProcess,
  id: string,
  rate: number,
  parameters: Parameters,
): Promise<void> {
  const { plan, recorder, workloads, say } = bench;
  const workload = workloads.files('cold', DEPTH);
  const probe = new Probe(server);
  const result = await bench.watch(id, server.pid, () =>
    runOpenLoop(workload, {
      ...{ port: server.port, connections: CONNECTIONS, rate, arrivals: 'poisson', seed: rate },
      ...{ seconds: plan.overloadSeconds, patienceMs: PATIENCE_MS, mayRefuse: true },
    }),
  );
  workloads.advance(workload, rate * (plan.overloadSeconds + 1));
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
  if (result.refused > 0) record('refusal-p99', 'µs', 'lower', result.refusals.getValueAtPercentile(99));
  record('healthz-longest', 'µs', 'lower', probe.latencies.maxValue);
  record('healthz-p50', 'µs', 'lower', probe.latencies.getValueAtPercentile(50));
  record('healthz-failed', 'probes', 'lower', probe.failed);
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

/** Asks `/healthz` as an orchestrator does, on a new connection each time, and watches memory. */
class Probe {
  readonly latencies = newLatencies();
  failed = 0;
  highestResident = 0;
  readonly #server: ServerProcess;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>;

  constructor(server: ServerProcess) {
    this.#server = server;
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  describe(): string {
    return `healthz at most ${(this.latencies.maxValue / 1000).toFixed(0)} ms (${this.failed} failed), RSS ${Math.round(this.highestResident / 1e6)} MB`;
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const start = performance.now();
      try {
        const response = await fetch(`http://127.0.0.1:${this.#server.port}/healthz`, {
          headers: { Connection: 'close' },
          signal: AbortSignal.timeout(PROBE_PATIENCE_MS),
        });
        await response.text();
        if (response.status !== 200) this.failed++;
      } catch {
        this.failed++;
      }
      this.latencies.recordValue(Math.max(1, Math.round((performance.now() - start) * 1000)));
      this.highestResident = Math.max(this.highestResident, residentOf(this.#server.pid));
      await sleep(PROBE_EVERY_MS);
    }
  }
}

/** The second field of `/proc/<pid>/statm`; 0 where there is none. */
function residentOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES;
  } catch {
    return 0;
  }
}
