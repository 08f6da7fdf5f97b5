import { finderOf, type Results } from '../run/results.js';

/**
 * A model of what a request costs: `fixed + perSignature × signatures + perKilobyte × body`, in µs of processor time.
 */
export interface CostModel {
  readonly fixed: number;
  readonly perSignature: number;
  readonly perKilobyte: number;
  /** The largest error of the model, as a share of what was measured. */
  readonly worstError: number;
}

interface Point {
  readonly signatures: number;
  readonly kilobytes: number;
  readonly measured: number;
}

/** Fits the model. @returns `null` if the results lack warm and cold traffic at three depths or more */
export function fitModel(results: Results): CostModel | null {
  const find = finderOf(results);
  const depths = [...new Set(results.figures.map(({ parameters }) => Number(parameters['depth'])))];
  const pointsOf = (traffic: 'warm' | 'cold') =>
    depths.flatMap((depth): Point[] => {
      const figure = find(`throughput/${traffic}/d${depth}/c32/cpu`);
      if (figure === undefined) return [];
      const kilobytes = Number(figure.parameters['bodyBytes']) / 1000;
      return [{ signatures: traffic === 'warm' ? 1 : depth + 1, kilobytes, measured: figure.median }];
    });
  const [warm, cold] = [pointsOf('warm'), pointsOf('cold')];
  return Math.min(warm.length, cold.length) < 3 ? null : fit([...warm, ...cold]);
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
  const [fixed = 0, perSignature = 0, perKilobyte = 0] = matrix.map((row) => row[3] ?? Number.NaN);
  const errors = points.map(({ signatures, kilobytes, measured }) =>
    Math.abs((fixed + perSignature * signatures + perKilobyte * kilobytes) / measured - 1),
  );
  return { fixed, perSignature, perKilobyte, worstError: Math.max(...errors) };
}
