import { figureOf, type Figure, type Results } from '../run/results.js';

/**
 * A model of what a request costs: `fixed + perSignature × signatures + perKilobyte × body`, in µs of processor time.
 */
export interface CostModel {
  readonly fixed: number;
  readonly perSignature: number;
  readonly perKilobyte: number;
}

/** A measured case, and what the model predicts for it. */
export interface Check {
  readonly traffic: string;
  readonly depth: number;
  readonly signatures: number;
  readonly cpu: { readonly measured: number; readonly modelled: number };
  readonly throughput: { readonly measured: number; readonly modelled: number };
}

/** The model of a run, fitted to warm and cold traffic and tested with mixed traffic. */
export interface FittedModel {
  readonly whole: CostModel;
  /** The part that only the main thread can do: the whole, less one floor for each signature. */
  readonly mainThread: CostModel;
  readonly checks: readonly Check[];
}

interface Point {
  readonly traffic: string;
  readonly depth: number;
  readonly signatures: number;
  readonly kilobytes: number;
  readonly measured: number;
}

const CONNECTIONS = 32;

/**
 * The number of signatures to verify for a request.
 *
 * @param hitRatio the share of requests whose whole chain is in the receipt cache
 */
export function signaturesOf(depth: number, hitRatio: number): number {
  return 1 + (1 - hitRatio) * depth;
}

/** Fits the model. @returns `null` if the results lack warm and cold traffic at three depths or more */
export function fitModel(results: Results): FittedModel | null {
  const points = pointsOf(results);
  const fitted = points.filter(({ traffic }) => traffic !== 'mixed');
  const isEnough = ['warm', 'cold'].every(
    (one) => fitted.filter(({ traffic }) => traffic === one).length >= 3,
  );
  if (!isEnough) return null;
  const whole = fit(fitted);
  // The floor and the fit are measured at different moments. A negative difference means that it is too small to see.
  const perSignature = Math.max(0, whole.perSignature - results.floorMicroseconds);
  const mainThread = { ...whole, perSignature };
  return { whole, mainThread, checks: points.map((point) => check(results, point, whole, mainThread)) };
}

/** The cost that a model predicts for a request. */
export function modelledCost(
  { fixed, perSignature, perKilobyte }: CostModel,
  signatures: number,
  kilobytes: number,
) {
  return fixed + perSignature * signatures + perKilobyte * kilobytes;
}

/**
 * The number of requests per second that a machine can serve. The limit is the first of these to run out: the main
 * thread, with the work that only it can do; all threads together, with all the work; or the cores, which other
 * programs use too.
 *
 * @param others µs of processor time that other programs on the machine take for each request
 */
export function capacityOf(
  cost: { readonly whole: number; readonly mainThread: number; readonly others: number },
  machine: { readonly cores: number; readonly workers: number },
): number {
  return Math.min(
    1e6 / cost.mainThread,
    ((machine.workers + 1) * 1e6) / cost.whole,
    (machine.cores * 1e6) / (cost.whole + cost.others),
  );
}

function check(results: Results, point: Point, wholeModel: CostModel, mainThreadModel: CostModel): Check {
  const { traffic, depth, signatures, kilobytes, measured } = point;
  const whole = modelledCost(wholeModel, signatures, kilobytes);
  const mainThread = modelledCost(mainThreadModel, signatures, kilobytes);
  const others = caseOf(results, traffic, depth, 'generator-cpu')?.median ?? 0;
  const cores = Number(results.machine['cores']);
  return {
    ...{ traffic, depth, signatures, cpu: { measured, modelled: whole } },
    throughput: {
      measured: caseOf(results, traffic, depth, 'throughput')?.median ?? Number.NaN,
      modelled: capacityOf({ whole, mainThread, others }, { cores, workers: Math.max(1, cores - 1) }),
    },
  };
}

const caseOf = (results: Results, traffic: string, depth: number, quantity: string): Figure | undefined =>
  figureOf(results, `closed-loop/wrk/${traffic}/d${depth}/c${CONNECTIONS}/${quantity}`) ??
  figureOf(results, `closed-loop/autocannon/${traffic}/d${depth}/c${CONNECTIONS}/${quantity}`);

function pointsOf(results: Results): Point[] {
  const depths = [...new Set(results.figures.map(({ parameters }) => Number(parameters['depth'])))].sort(
    (a, b) => a - b,
  );
  return ['warm', 'mixed', 'cold'].flatMap((traffic) =>
    depths.flatMap((depth) => {
      const figure = caseOf(results, traffic, depth, 'cpu');
      if (figure === undefined) return [];
      const hitRatio = { warm: 1, mixed: 0.9, cold: 0 }[traffic] ?? 0;
      const kilobytes = Number(figure.parameters['bodyBytes']) / 1000;
      return [
        { traffic, depth, signatures: signaturesOf(depth, hitRatio), kilobytes, measured: figure.median },
      ];
    }),
  );
}

/** Fits by least squares of the relative errors, so that a deep chain does not count more than others. */
function fit(points: readonly Point[]): CostModel {
  const rows = points.map(({ signatures, kilobytes, measured }) =>
    [1, signatures, kilobytes].map((x) => x / measured),
  );
  // Solves the normal equations A x = 1, three by three, with Gauss-Jordan elimination.
  const matrix = [0, 1, 2].map((i) => [
    ...[0, 1, 2].map((j) => rows.reduce((sum, row) => sum + (row[i] ?? 0) * (row[j] ?? 0), 0)),
    rows.reduce((sum, row) => sum + (row[i] ?? 0), 0),
  ]);
  for (let pivot = 0; pivot < 3; pivot++) {
    const row = matrix[pivot] ?? [];
    const scale = row[pivot] ?? 0;
    if (Math.abs(scale) < 1e-15)
      throw new RangeError('the points do not tell the costs apart; measure more depths');
    for (let at = 0; at < 4; at++) row[at] = (row[at] ?? 0) / scale;
    for (const [other, target] of matrix.entries()) {
      if (other === pivot) continue;
      const factor = target[pivot] ?? 0;
      for (let at = 0; at < 4; at++) target[at] = (target[at] ?? 0) - factor * (row[at] ?? 0);
    }
  }
  const [fixed, perSignature, perKilobyte] = matrix.map((row) => row[3] ?? Number.NaN) as [
    number,
    number,
    number,
  ];
  return { fixed, perSignature, perKilobyte };
}
