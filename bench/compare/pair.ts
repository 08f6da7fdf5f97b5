import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mean, medianAbsoluteDeviation } from 'simple-statistics';
import { checkAnswers } from '../load/measure-load.js';
import { program } from '../run/programs.js';
import { startTree, type ServerProcess } from '../service/start.js';
import { COLD_CACHE_BYTES, type Workload, type Workloads } from '../workload/workload.js';
import { hodgesLehmann, logRatioOf, type Quad } from './paired.js';
import type { Tree } from './trees.js';

/** The traffic that the two versions get. */
export interface Case {
  readonly traffic: 'warm' | 'cold';
  readonly depth: number;
}

/** What is compared: processor time under load, latency with one request at a time. */
export const QUANTITIES = ['cpu', 'latency p50', 'latency p99'] as const;
export type Quantity = (typeof QUANTITIES)[number];

/** The result of one pair of processes in one case. */
export interface Restart {
  /** The effect, as a logarithm of B / A. */
  readonly effects: Readonly<Record<Quantity, number>>;
  /** Means over the slices, in µs. */
  readonly means: Readonly<Record<Quantity, readonly [a: number, b: number]>>;
  /** Share of the cores that others had, for each slice. */
  readonly others: readonly number[];
}

/** How a pair is measured. */
export interface PairPlan {
  /** Quads are measured until the standard error of the effects within this pair (a logarithm) is at most this. */
  readonly precision: number;
  /** Which side is started and measured first. */
  readonly isSwapped: boolean;
  /** Rounds of additional work that B does in each request, to show that the comparison finds them; 0 for none. */
  readonly plantedRounds: number;
  /** `WORKER_THREADS`; `null` for the default. Planted work runs without threads. */
  readonly workers?: number | null;
  /** Minimum number of quads; default 6. With fewer, the spread within a pair is not known. */
  readonly minQuads?: number;
}

const LOADED: Omit<SliceOrder, 'side'> = { connections: 32, requests: 600, milliseconds: 900 };
const ALONE: Omit<SliceOrder, 'side'> = { connections: 1, requests: 150, milliseconds: 900 };
const WARM_UP: Omit<SliceOrder, 'side'> = { connections: 32, requests: 4000, milliseconds: 1000 };
const WARM_UPS = 2;
const MIN_QUADS = 6;
const MAX_QUADS = 40;

/**
 * Starts one process of each version and measures both in slices in turn.
 *
 * @throws Error if an answer is wrong, since the measurement is then worthless
 */
export async function measurePair(
  trees: readonly [Tree, Tree],
  { traffic, depth }: Case,
  workloads: Workloads,
  plan: PairPlan,
): Promise<Restart> {
  return withPair(trees, { traffic, depth }, workloads, plan, async (take) => {
    for (let at = 0; at < WARM_UPS; at++)
      for (const side of [0, 1] as const) await take({ ...WARM_UP, side });
    for (const side of [0, 1] as const) await take({ ...ALONE, side });
    const loaded: Slice[][] = [];
    const alone: Slice[][] = [];
    for (let quad = 0; quad < MAX_QUADS && !isPrecise(quad, loaded, alone, plan); quad++) {
      const isReversed = (quad % 2 === 0) === plan.isSwapped;
      loaded.push(await takeQuad(take, LOADED, isReversed));
      alone.push(await takeQuad(take, ALONE, isReversed));
    }
    return summarise(loaded, alone);
  });
}

/**
 * Measures processor time alone, with as few quads as possible. Takes some three seconds on a quiet machine.
 *
 * @returns the effect, as a logarithm of B / A
 * @throws Error if an answer is wrong
 */
export async function measureProcessorTime(
  trees: readonly [Tree, Tree],
  one: Case,
  workloads: Workloads,
  isSwapped: boolean,
): Promise<number> {
  return withPair(trees, one, workloads, { isSwapped, plantedRounds: 0 }, async (take) => {
    for (const side of [0, 1] as const) await take({ ...WARM_UP, side });
    const quads: number[] = [];
    for (let quad = 0; quad < MIN_QUADS; quad++) {
      const [a1, a2, b1, b2] = await takeQuad(take, LOADED, (quad % 2 === 0) === isSwapped);
      quads.push(logRatioOf({ a: [cpuOf(a1), cpuOf(a2)], b: [cpuOf(b1), cpuOf(b2)] }));
    }
    return hodgesLehmann(quads);
  });
}

const cpuOf = (slice: Slice | undefined) => slice?.cpu ?? Number.NaN;

type Take = (order: SliceOrder) => Promise<Slice>;

/** Starts a pair and a generator for both, checks answers, lets slices be taken, and stops all. */
async function withPair<Value>(
  trees: readonly [Tree, Tree],
  { traffic, depth }: Case,
  workloads: Workloads,
  plan: Omit<PairPlan, 'precision'>,
  use: (take: Take) => Promise<Value>,
): Promise<Value> {
  const services = await startPair(trees, traffic === 'cold', plan);
  let slicer: Slicer | undefined;
  try {
    const exchanges = traffic === 'cold' ? workloads.cold(depth).slice(-64) : workloads.warm(depth);
    for (const { port } of services) {
      const { wrong, firstWrong } = await checkAnswers(port, exchanges);
      if (wrong > 0) throw new Error(`wrong answers at depth ${depth}: ${firstWrong}`);
    }
    const generator = await Slicer.start({ sides: services, workload: workloads.files(traffic, depth) });
    slicer = generator;
    return await use(async (order) => {
      const slice = await generator.slice(order);
      if (slice.wrong > 0)
        throw new Error(`${slice.wrong} wrong answers at depth ${depth}: ${slice.firstWrong}`);
      return slice;
    });
  } finally {
    slicer?.stop();
    for (const service of services) await service.stop();
  }
}

/**
 * Four slices in the order A B B A, or B A A B so that neither side is always the first.
 *
 * @returns both of A, then both of B
 */
async function takeQuad(take: Take, kind: Omit<SliceOrder, 'side'>, isReversed: boolean): Promise<Slice[]> {
  const sides: readonly [Slice[], Slice[]] = [[], []];
  for (const side of isReversed ? ([1, 0, 0, 1] as const) : ([0, 1, 1, 0] as const))
    sides[side].push(await take({ ...kind, side }));
  return sides.flat();
}

async function startPair(
  trees: readonly [Tree, Tree],
  isCold: boolean,
  { isSwapped, plantedRounds, workers = null }: Omit<PairPlan, 'precision'>,
): Promise<[ServerProcess, ServerProcess]> {
  const env = {
    // Work is compared. A service that polls while it waits would hide it: it polls less when it has more work.
    BUSY_POLL_MICROSECS: '0',
    // The second for commits that do not know the first.
    QUEUE_BURST_MS: '60000',
    QUEUE_TARGET_MS: '60000',
    ...(plantedRounds > 0 ? { WORKER_THREADS: '0' } : {}),
    ...(workers === null ? {} : { WORKER_THREADS: String(workers) }),
    ...(isCold ? { RECEIPT_CACHE_BYTES: String(COLD_CACHE_BYTES) } : {}),
  };
  const start = (side: 0 | 1) =>
    // Both are started in the same way, but A does no additional work.
    startTree(trees[side].folder, {
      nodeArgs: plantedRounds > 0 ? ['--import', program('compare/planted-process.js')] : [],
      env: { ...env, BENCH_PLANTED_ROUNDS: String(side === 1 ? plantedRounds : 0) },
    });
  if (!isSwapped) {
    const a = await start(0);
    return [a, await start(1)];
  }
  const b = await start(1);
  return [await start(0), b];
}

/** Each quad is [A, A, B, B] here, whatever its order was. */
function quadsOf(
  quantity: Quantity,
  loaded: readonly (readonly Slice[])[],
  alone: readonly (readonly Slice[])[],
): Quad[] {
  const [slices, of] = {
    cpu: [loaded, ({ cpu }: Slice) => cpu] as const,
    'latency p50': [alone, ({ p50 }: Slice) => p50] as const,
    'latency p99': [alone, ({ p99 }: Slice) => p99] as const,
  }[quantity];
  return slices.map((quad) => {
    const [a1, a2, b1, b2] = quad.map(of) as [number, number, number, number];
    return { a: [a1, a2], b: [b1, b2] };
  });
}

/** Depends on the spread only, never on the effect, so that stopping early does not bias the effect. */
function isPrecise(
  quads: number,
  loaded: readonly (readonly Slice[])[],
  alone: readonly (readonly Slice[])[],
  { precision, minQuads = MIN_QUADS }: PairPlan,
): boolean {
  if (quads < minQuads) return false;
  return (['cpu', 'latency p50'] as const).every((quantity) => {
    const effects = quadsOf(quantity, loaded, alone).map(logRatioOf);
    // For normal noise, the standard deviation is 1.48 times the median absolute deviation, which outliers do not
    // change.
    return (1.4826 * medianAbsoluteDeviation(effects)) / Math.sqrt(quads) <= precision;
  });
}

function summarise(loaded: readonly (readonly Slice[])[], alone: readonly (readonly Slice[])[]): Restart {
  const each = <Value>(value: (quads: readonly Quad[]) => Value) =>
    Object.fromEntries(
      QUANTITIES.map((quantity) => [quantity, value(quadsOf(quantity, loaded, alone))]),
    ) as Record<Quantity, Value>;
  return {
    effects: each((quads) => hodgesLehmann(quads.map(logRatioOf))),
    means: each((quads) => [mean(quads.flatMap(({ a }) => a)), mean(quads.flatMap(({ b }) => b))] as const),
    others: loaded.flatMap((quad) => quad.map(({ others }) => others)),
  };
}

/** The two services of a pair, and their requests. */
export interface SlicesJob {
  readonly sides: readonly [Side, Side];
  readonly workload: Workload;
}

/** A service under load. */
export interface Side {
  readonly port: number;
  readonly pid: number;
}

/**
 * One slice: a closed loop on one side. It ends after a number of requests, so that slow and fast moments of the
 * machine have equal weight, and at the latest after a time.
 */
export interface SliceOrder {
  readonly side: 0 | 1;
  readonly connections: number;
  readonly requests: number;
  readonly milliseconds: number;
}

/** The result of a slice; times in µs. */
export interface Slice {
  readonly requests: number;
  readonly seconds: number;
  /** Processor time of the service per request. */
  readonly cpu: number;
  readonly p50: number;
  readonly p99: number;
  /** Share of all cores that neither the service nor the generator had. */
  readonly others: number;
  readonly wrong: number;
  readonly firstWrong: string;
}

/** The load generator for slices: one process for both sides, since two processes would differ. */
class Slicer {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(job: SlicesJob): Promise<Slicer> {
    const child = fork(program('compare/slices-process.js'), [JSON.stringify(job)], {
      // Otherwise V8's helper threads take cores from the service, in bursts.
      execArgv: ['--single-threaded'],
    });
    const slicer = new Slicer(child);
    await slicer.#reply();
    return slicer;
  }

  async slice(order: SliceOrder): Promise<Slice> {
    this.#child.send(order);
    return (await this.#reply()) as Slice;
  }

  stop(): void {
    this.#child.kill();
  }

  async #reply(): Promise<unknown> {
    const ended = new AbortController();
    const gone = once(this.#child, 'exit', { signal: ended.signal }).then(([code]: unknown[]) => {
      throw new Error(`the generator of slices ended with ${String(code)}`);
    });
    // It rejects when it is aborted below, if the answer comes first.
    gone.catch(() => undefined);
    try {
      const [message] = (await Promise.race([once(this.#child, 'message'), gone])) as unknown[];
      return message;
    } finally {
      ended.abort();
    }
  }
}
