import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { measureCapacity, prime } from '../load/measure-load.js';
import { OPEN_LOOP_CONNECTIONS, runOpenLoop, type Load, type LoadResult } from '../load/open-loop.js';
import { processorTimeOfEndedChildren, residentOf } from '../measure/processor-time.js';
import { newLatencies, recordLatency } from '../measure/statistics.js';
import type { Bench, Suite } from '../run/suite.js';
import { environmentFor, startService, type ServerProcess } from '../service/start.js';
import { gateWorkloads, type Traffic, type Workload, type Workloads } from '../workload/workload.js';

const DEPTH = 4;
/** Connections that the callers share. With few, nothing waits in the service; with many, it refuses by itself. */
export const POOLS = [64, 256, 1_000, 4_000] as const;
export const FACTORS = [0.9, 2, 3, 5] as const;
/** Of callers who give up and leave their connections open: nothing tells the service that they have gone. */
const STAYING_POOLS = [256, 1_000] as const;
/** It counts from when a caller asks, also while it waits for a connection. */
const PATIENCE_MS = 1_000;
/** A flood settles in this time: nobody gives up in its first second. */
const SETTLING_SECONDS = 3;

// Both have all cores, as in production: what the generator takes is a figure of its own.
const CORES = availableParallelism();
const MICROS = 1e6;

/** `undefined`: `/verify`. */
type Way = 'gate' | 'grpc' | undefined;

/** A service, and how many connections its callers share. */
interface Host {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly pools: readonly number[];
  readonly factors: readonly number[];
  readonly way?: Way;
  /** Of its chains: a client of gRPC takes so long for a call that only long ones can be too many. */
  readonly depth?: number;
}

const GATE = { GATE_REPLAY: 'off', GRPC_PORT: '0' };
const HOSTS: readonly Host[] = [
  { name: 'w-default', env: {}, pools: POOLS, factors: FACTORS },
  { name: 'w-0', env: { WORKER_THREADS: '0' }, pools: POOLS, factors: FACTORS },
  { name: 'node', env: { FRONT_END: 'node' }, pools: [256], factors: [0.9, 3] },
  { name: 'gate', env: GATE, pools: [256], factors: [0.9, 3], way: 'gate' },
  // With an older Node, a connection ends after 1,000 calls that were given up, and 33 a second.
  ...(parseInt(process.versions.node, 10) < 24
    ? []
    : [{ name: 'grpc', env: GATE, pools: [64], factors: [0.9, 3], way: 'grpc', depth: 16 } as const]),
];

export const overload: Suite = {
  name: 'overload',
  about: 'goodput, refusals, latency, memory where callers share connections and give up; bursts, crowds',
  maxRuns: 1,
  run: async (bench) => {
    const { plan, recorder } = bench;
    recorder.notes.push(`overload: the service and the generator share ${CORES} cores`);
    // No page shows the crowds.
    for (const crowd of plan.mode === 'all' ? [] : CROWDS)
      await bench.undisturbed(() => measureCrowd(bench, crowd));
    for (const host of HOSTS) {
      const base = `overload/${host.name}`;
      recorder.measureFloor();
      const capacity = await coldCapacity(bench, host);
      recorder.record(`${base}/capacity`, capacity);
      // Without workers, a page needs one row.
      for (const connections of plan.mode === 'all' && host.name === 'w-0' ? [256] : host.pools)
        for (const factor of host.factors)
          await bench.undisturbed(() => measurePool(bench, host, { connections, factor, capacity }));
      if (host.name.startsWith('w-') && plan.mode !== 'all')
        for (const connections of STAYING_POOLS) {
          const offered = { connections, factor: 3, capacity, isStaying: true };
          await bench.undisturbed(() => measurePool(bench, host, offered));
        }
    }
  },
};

/** A service with the usual limits. */
async function startLimited(bench: Bench, { env }: Host): Promise<ServerProcess> {
  const server = await startService({ ...environmentFor('cold'), BUSY_POLL_MICROSECS: '0', ...env });
  await prime(bench, server, DEPTH);
  return server;
}

const workloadOf = (workloads: Workloads, traffic: Traffic, way: Way, depth = DEPTH): Workload =>
  way === undefined ? workloads.files(traffic, depth) : gateWorkloads(workloads, depth, traffic)[way];

/** What is answered beside the same generator, over connections that are never idle, to callers who wait for as long as it takes. */
async function coldCapacity(bench: Bench, host: Host): Promise<number> {
  await using server = await startLimited(bench, host);
  const workload = workloadOf(bench.workloads, 'cold', host.way, host.depth);
  const port = server.portFor(workload);
  const closed = await measureCapacity(bench, workload, { port }, null);
  const load = { rate: 1.5 * closed, seconds: 4, warmUpSeconds: 1 };
  const target = { port, connections: OPEN_LOOP_CONNECTIONS, ...load };
  const result = await runOpenLoop(workload, target, null);
  bench.workloads.advance(workload, result.answered + result.warmedUp);
  bench.recorder.blame(`overload/${host.name}/capacity`, result.wrong, result.firstWrong);
  return result.answered / result.seconds;
}

/** A load, as a multiple of the capacity. */
interface Offered {
  readonly connections: number;
  readonly factor: number;
  readonly capacity: number;
  readonly isStaying?: boolean;
}

async function measurePool(
  bench: Bench,
  host: Host,
  { connections, factor, capacity, isStaying = false }: Offered,
): Promise<void> {
  const { recorder, workloads } = bench;
  const id = `overload/${host.name}/${isStaying ? 'staying' : 'pool'}-${connections}/x${factor}`;
  const rate = factor * capacity;
  const seconds = bench.plan.overloadSeconds;
  await using server = await startLimited(bench, host);
  const workload = workloadOf(workloads, 'cold', host.way, host.depth);
  const target: Load = {
    ...{ port: server.portFor(workload), connections, rate, arrivals: 'poisson', seed: Math.round(rate) },
    ...{ seconds, warmUpSeconds: SETTLING_SECONDS, mayRefuse: true },
    ...{ patienceMs: PATIENCE_MS, closesGivenUp: !isStaying },
  };
  const before = processorTimeOfEndedChildren();
  const probed = await probing(server, () =>
    bench.watch(id, server.pid, () => runOpenLoop(workload, target, null)),
  );
  const generator = (processorTimeOfEndedChildren() - before) / MICROS / (seconds + SETTLING_SECONDS);
  const { answered, refused, timedOut, wrong, firstWrong, latencies, serviceTimes } = probed.value;
  workloads.advance(workload, rate * (seconds + SETTLING_SECONDS));
  recorder.blame(id, wrong, firstWrong);
  recorder.record(`${id}/goodput`, answered / seconds);
  recorder.record(`${id}/goodput-of-capacity`, answered / seconds / capacity);
  recorder.record(`${id}/generator`, generator);
  recorder.record(`${id}/refused`, refused / seconds, '1/s');
  recorder.record(`${id}/timed-out`, timedOut / seconds);
  recorder.recordLatencies(id, latencies);
  recorder.recordLatencies(`${id}/service`, serviceTimes);
  recorder.record(`${id}/healthz-p99`, probed.p99);
  recorder.record(`${id}/resident`, probed.resident);
  const rates = [rate, answered / seconds, refused / seconds, timedOut / seconds].map(Math.round);
  const p99 = (serviceTimes.getValueAtPercentile(99) / 1000).toFixed(0);
  bench.say(
    `${id}: ${rates[0]}/s offered, ${rates[1]} good (${Math.round((100 * answered) / seconds / capacity)} %), ` +
      `${rates[2]} refused, ${rates[3]} given up, p99 there ${p99} ms, the generator ${generator.toFixed(2)} cores; ${probed.about}`,
  );
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
  readonly traffic: Traffic;
  readonly isBurst?: boolean;
  readonly patienceMs?: number | null;
  readonly way?: Way;
}

export const CROWDS: readonly Crowd[] = [
  { name: 'burst-200-cold', clients: 200, traffic: 'cold', isBurst: true },
  { name: 'burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true },
  { name: 'loop-512-warm', clients: 512, traffic: 'warm' },
  { name: 'loop-256-cold', clients: 256, traffic: 'cold' },
  { name: 'giving-up-1000-warm', clients: 1000, traffic: 'warm', patienceMs: 200 },
  { name: 'gate-burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true, way: 'gate' },
  { name: 'grpc-burst-1000-warm', clients: 1000, traffic: 'warm', isBurst: true, way: 'grpc' },
];

/** Measures how a burst or a crowd of clients fares, with a service of its own on all cores. */
async function measureCrowd(bench: Bench, crowd: Crowd): Promise<void> {
  const { plan, recorder, say } = bench;
  const { name, traffic, isBurst = false } = crowd;
  const id = `overload/${name}`;
  await using server = await startService({
    ...{ GATE_REPLAY: 'off', GRPC_PORT: '0' },
    // A burst right after the start finds an empty cache of any size.
    ...(isBurst ? {} : environmentFor(traffic)),
  });
  if (traffic === 'warm') {
    await prime(bench, server, DEPTH);
    await ask(bench, server, { ...crowd, clients: PEAK_CLIENTS, isBurst: false }, WARM_UP_SECONDS);
  }
  const seconds = isBurst ? BURST_SECONDS : plan.overloadSeconds;
  const measure = () => bench.watch(id, server.pid, () => ask(bench, server, crowd, seconds));
  const { value: fared, about } = await probing(server, measure);
  const refused = fared.refused / (fared.answered + fared.refused + fared.timedOut);
  recorder.record(`${id}/refused`, refused);
  recorder.record(`${id}/goodput`, fared.answered / fared.seconds);
  recorder.recordLatencies(id, fared.latencies);
  recorder.blame(id, fared.wrong, fared.firstWrong);
  say(`${id}: ${(100 * refused).toFixed(1)} % refused, ${fared.timedOut} gave up, ${about}`);
}

async function ask(
  { workloads }: Bench,
  server: ServerProcess,
  { clients, traffic, patienceMs = null, isBurst = false, way }: Crowd,
  seconds: number,
): Promise<LoadResult> {
  const workload = workloadOf(workloads, traffic, way);
  const result = await runOpenLoop(workload, {
    ...{ port: server.portFor(workload), connections: clients, seconds, warmUpSeconds: 0 },
    ...{ patienceMs, mayRefuse: true, clients: { requests: isBurst ? clients : null } },
  });
  workloads.advance(workload, result.answered + result.refused + result.timedOut + clients);
  return result;
}

const PROBE_EVERY_MS = 100;
const PROBE_PATIENCE_MS = 10_000;

/** Asks `/healthz` like an orchestrator while something is measured, on a new connection each time, and watches memory. */
async function probing<Value>(
  server: { readonly port: number; readonly pid: number },
  measure: () => Promise<Value>,
) {
  const latencies = newLatencies();
  let [failed, resident, isOver] = [0, 0, false];
  const probe = async () => {
    while (!isOver) {
      const start = performance.now();
      const asked = { headers: { Connection: 'close' }, signal: AbortSignal.timeout(PROBE_PATIENCE_MS) };
      const status = await fetch(`http://127.0.0.1:${server.port}/healthz`, asked)
        .then((response) => response.text().then(() => response.status))
        .catch(() => 0);
      if (status !== 200) failed++;
      recordLatency(latencies, (performance.now() - start) * 1000);
      resident = Math.max(resident, residentOf(server.pid));
      await sleep(PROBE_EVERY_MS);
    }
  };
  const probed = probe();
  const value = await measure().finally(() => (isOver = true));
  await probed;
  const slowest = (latencies.maxValue / 1000).toFixed(0);
  const megabytes = Math.round(resident / 1e6);
  const about = `healthz at most ${slowest} ms (${failed} failed), RSS ${megabytes} MB`;
  return { value, about, resident, p99: latencies.getValueAtPercentile(99) };
}
