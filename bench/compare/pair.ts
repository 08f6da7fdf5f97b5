import { mean, medianAbsoluteDeviation } from 'simple-statistics';
import { checkAnswers } from '../load/measure-load.js';
import { Generator } from '../load/open-loop.js';
import { Watch } from '../measure/watch.js';
import { environmentFor, startTree, type ServerProcess } from '../service/start.js';
import type { Traffic, Workloads } from '../workload/workload.js';
import { hodgesLehmann, logRatioOf, type Quad } from './effects.js';
import type { Tree } from './trees.js';

export interface Case {
  readonly traffic: Traffic;
  readonly depth: number;
}

const LATENCIES = ['latency p50', 'latency p99'] as const;
/** What is compared: processor time under load, latency with one request at a time. */
export const QUANTITIES = ['cpu', ...LATENCIES] as const;
export type Quantity = (typeof QUANTITIES)[number];

/** The effect, as a logarithm of B / A, and the means over the slices in µs. */
interface Measured {
  readonly effect: number;
  readonly means: readonly [number, number];
}

export interface Restart {
  /** No latency where it was left out. */
  readonly measured: Readonly<Partial<Record<Quantity, Measured>> & { cpu: Measured }>;
  readonly others: number;
}

export interface PairPlan {
  /** Which side is started and measured first. */
  readonly isSwapped: boolean;
  /** Quads are measured until the standard error of the effects within this pair (a logarithm) is at most this. */
  readonly precision: number;
  /** Leaves out what only latency needs, which takes most of the time. */
  readonly isOnlyCpu?: boolean;
  /** Arguments of Node for A and for B. A test plants a slow-down with them. */
  readonly nodeArgs?: readonly [a: readonly string[], b: readonly string[]];
  /** `WORKER_THREADS`; `null` for the default. */
  readonly workers?: number | null;
  /** Aborted when the time is over: this ends the processes, so that whatever waits for them fails. */
  readonly time?: AbortSignal;
  /** With fewer quads, the spread within a pair is not known. */
  readonly minQuads?: number;
}

/** A slice ends after a number of requests, so that slow and fast moments of the machine have equal weight. */
const LOADED = { connections: 32, requests: 600, seconds: 1 };
const ALONE = { connections: 1, requests: 150, seconds: 1 };
/** Until V8 has compiled what runs often; what it does later, it does to both sides. */
const WARM_UP = { connections: 32, requests: 10_000, seconds: 3 };
const MIN_QUADS = 6;
const MAX_QUADS = 40;

type Slice = Readonly<Record<Quantity, number>>;
type Take = (side: 0 | 1, kind: typeof LOADED) => Promise<Slice>;

/**
 * Starts one process of each version and measures both in slices in turn.
 *
 * @throws Error if an answer is wrong, since the measurement is then worthless
 */
export async function measurePair(
  trees: readonly [Tree, Tree],
  one: Case,
  workloads: Workloads,
  plan: PairPlan,
): Promise<Restart> {
  const { isSwapped, isOnlyCpu = false, nodeArgs = [[], []], time } = plan;
  const env = environmentOf(one, plan);
  const start = (side: 0 | 1) => startTree(trees[side].folder, { env, nodeArgs: nodeArgs[side], time });
  await using first = await start(isSwapped ? 1 : 0);
  await using second = await start(isSwapped ? 0 : 1);
  const services = isSwapped ? ([second, first] as const) : ([first, second] as const);
  const { traffic, depth } = one;
  const exchanges = traffic === 'cold' ? workloads.cold(depth).slice(-64) : workloads.warm(depth);
  for (const { port } of services) refuse(one, await checkAnswers(port, exchanges));

  // One generator for both sides, since two processes would differ.
  await using generator = new Generator(null, time);
  const take = sliceTaker(services, generator, one, workloads);
  const quads: Record<Quantity, Quad[]> = { cpu: [], 'latency p50': [], 'latency p99': [] };
  const { others } = await new Watch().during([first.pid, second.pid, generator.pid], async () => {
    const warmUps = isOnlyCpu ? [WARM_UP] : [WARM_UP, ALONE];
    for (const kind of warmUps) for (const side of [0, 1] as const) await take(side, kind);
    for (let at = 0; at < MAX_QUADS && !isPrecise(quads, plan); at++) {
      const isReversed = (at % 2 === 0) === isSwapped;
      quads.cpu.push((await takeQuad(take, LOADED, isReversed))('cpu'));
      if (isOnlyCpu) continue;
      const alone = await takeQuad(take, ALONE, isReversed);
      for (const quantity of LATENCIES) quads[quantity].push(alone(quantity));
    }
  });
  const summary = (quantity: Quantity) => {
    const [a, b] = [quads[quantity].flatMap((quad) => quad.a), quads[quantity].flatMap((quad) => quad.b)];
    return { effect: hodgesLehmann(quads[quantity].map(logRatioOf)), means: [mean(a), mean(b)] as const };
  };
  const latencies = isOnlyCpu ? [] : LATENCIES.map((quantity) => [quantity, summary(quantity)] as const);
  return { measured: { cpu: summary('cpu'), ...Object.fromEntries(latencies) }, others };
}

function environmentOf({ traffic }: Case, { workers = null }: PairPlan) {
  return {
    // Work is compared. A service that polls while it waits would hide it: it polls less when it has more work.
    BUSY_POLL_MICROSECS: '0',
    ...(workers === null ? {} : { WORKER_THREADS: String(workers) }),
    ...environmentFor(traffic),
  };
}

function refuse({ depth }: Case, { wrong, firstWrong }: { wrong: number; firstWrong: string }): void {
  if (wrong > 0) throw new Error(`${wrong} wrong answers at depth ${depth}: ${firstWrong}`);
}

/** Returns what takes a slice of one side: a closed loop. */
function sliceTaker(
  services: readonly [ServerProcess, ServerProcess],
  generator: Generator,
  one: Case,
  workloads: Workloads,
): Take {
  const workload = workloads.files(one.traffic, one.depth);
  // Both sides get the same requests in the same order.
  const sent = [0, 0];
  return async (side, { connections, requests, seconds }) => {
    const service = services[side];
    const before = service.processorTime();
    const target = { port: service.port, connections, clients: { requests }, seconds, warmUpSeconds: 0 };
    const slice = await generator.run({ ...workload, start: sent[side] ?? 0 }, target);
    const cpu = (service.processorTime() - before) / slice.answered;
    refuse(one, slice);
    sent[side] = (sent[side] ?? 0) + slice.answered;
    const [p50 = 0, p99 = 0] = [50, 99].map((at) => slice.latencies.getValueAtPercentile(at));
    return { cpu, 'latency p50': p50, 'latency p99': p99 };
  };
}

/** Four slices in the order A B B A, or B A A B so that neither side is always the first. */
async function takeQuad(take: Take, kind: typeof LOADED, isReversed: boolean) {
  const sides: readonly [Slice[], Slice[]] = [[], []];
  for (const side of isReversed ? ([1, 0, 0, 1] as const) : ([0, 1, 1, 0] as const))
    sides[side].push(await take(side, kind));
  return (quantity: Quantity): Quad => ({
    a: sides[0].map((slice) => slice[quantity]),
    b: sides[1].map((slice) => slice[quantity]),
  });
}

/** Depends on the spread only, never on the effect, so that stopping early does not bias the effect. */
function isPrecise(
  quads: Readonly<Record<Quantity, readonly Quad[]>>,
  { precision, isOnlyCpu, minQuads = MIN_QUADS }: PairPlan,
): boolean {
  if (quads.cpu.length < minQuads) return false;
  return (isOnlyCpu ? (['cpu'] as const) : (['cpu', 'latency p50'] as const)).every((quantity) => {
    const effects = quads[quantity].map(logRatioOf);
    // For normal noise, the standard deviation is 1.48 times the median absolute deviation, which outliers do not
    // change.
    return (1.4826 * medianAbsoluteDeviation(effects)) / Math.sqrt(effects.length) <= precision;
  });
}
