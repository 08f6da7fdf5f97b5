import type { Finder } from '../run/results.js';

type Row = readonly [number, number, number];

/**
 * Fits what a request costs, `fixed + perSignature × signatures + perKilobyte × body` in µs of processor time, by least
 * squares of the relative errors, so that a deep chain does not count more than others.
 *
 * @returns also the largest error as a share of what was measured; `null` if the results lack warm and cold traffic at three
 *   depths or more
 */
export function fitModel(find: Finder) {
  const points = [1, 2, 3, 4, 8, 16].flatMap((depth) =>
    ['warm', 'cold'].flatMap((traffic) => {
      const [cpu, body] = ['cpu', 'body'].map((what) => find(`throughput/${traffic}/d${depth}/c32/${what}`));
      if (cpu === undefined || body === undefined) return [];
      const row: Row = [1, traffic === 'warm' ? 1 : depth + 1, body.median / 1000];
      return [{ traffic, row, measured: cpu.median }];
    }),
  );
  const count = (traffic: string) => points.filter((point) => point.traffic === traffic).length;
  if (Math.min(count('warm'), count('cold')) < 3) return null;
  // The normal equations A x = b of the rows divided by what was measured, solved by Cramer's rule.
  const sumOf = (of: (row: Row, measured: number) => number) =>
    points.reduce((sum, { row, measured }) => sum + of(row, measured), 0);
  const matrix = ([0, 1, 2] as const).map(
    (i) => ([0, 1, 2] as const).map((j) => sumOf((row, y) => (row[i] * row[j]) / y ** 2)) as unknown as Row,
  ) as [Row, Row, Row];
  const right = ([0, 1, 2] as const).map((i) => sumOf((row, y) => row[i] / y)) as unknown as Row;
  const solve = (at: 0 | 1 | 2) =>
    determinant(matrix.with(at, right) as [Row, Row, Row]) / determinant(matrix);
  const [fixed, perSignature, perKilobyte] = [solve(0), solve(1), solve(2)];
  // Points that do not tell the costs apart.
  if (!Number.isFinite(fixed + perSignature + perKilobyte)) return null;
  const errors = points.map(({ row, measured }) =>
    Math.abs((fixed * row[0] + perSignature * row[1] + perKilobyte * row[2]) / measured - 1),
  );
  return { fixed, perSignature, perKilobyte, worstError: Math.max(...errors) };
}

const determinant = ([a, b, c]: readonly [Row, Row, Row]) =>
  a[0] * (b[1] * c[2] - b[2] * c[1]) -
  a[1] * (b[0] * c[2] - b[2] * c[0]) +
  a[2] * (b[0] * c[1] - b[1] * c[0]);
