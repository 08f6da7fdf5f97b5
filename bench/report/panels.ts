import type { TopLevelSpec } from 'vega-lite';
import type { Figure, Results } from '../run/results.js';
import { draw, NARROW, rowOf, type Row } from './charts.js';

// The smaller charts of the report. Each is one panel that fits on a phone, with the interval of each median.

interface Axis {
  readonly field: string;
  readonly title: string;
  /** Whether its values are names, not numbers. */
  readonly isOrdinal?: boolean;
}

/** Draws lines over an axis, one for each series. */
function lines(
  rows: readonly Row[],
  x: Axis,
  { title, isLog = false, order }: { title: string; isLog?: boolean; order?: readonly string[] },
): Promise<string> {
  const values = [...new Set(rows.map((row) => row[x.field]))];
  const numbers = values.map(Number);
  const sort = order ?? [...new Set(rows.map(({ series }) => String(series)))];
  return draw({
    data: { values: rows },
    width: NARROW,
    height: 190,
    encoding: {
      x: {
        ...{ field: x.field, title: x.title },
        ...(x.isOrdinal === true
          ? { type: 'ordinal', sort: null }
          : {
              type: 'quantitative',
              axis: { values },
              scale: { domain: [Math.min(...numbers) - 0.5, Math.max(...numbers) + 0.5], nice: false },
            }),
      },
      color: { field: 'series', type: 'nominal', title: null, sort, legend: { columns: 3 } },
    },
    layer: [
      {
        mark: { type: 'line', point: { size: 22 } },
        encoding: {
          y: {
            ...{ field: 'value', type: 'quantitative', title },
            scale: isLog ? { type: 'log' } : { zero: true },
          },
          strokeDash: { condition: { test: "datum.kind === 'floor'", value: [4, 3] }, value: [1, 0] },
        },
      },
      {
        mark: { type: 'rule', strokeWidth: 1.5, opacity: 0.6 },
        encoding: { y: { field: 'low', type: 'quantitative' }, y2: { field: 'high' } },
      },
    ],
  } as TopLevelSpec);
}

/** Draws horizontal bars. Bars of one row are stacked; a single bar shows its interval. */
function bars(rows: readonly Row[], title: string, isStacked: boolean): Promise<string> {
  const y = { field: 'label', type: 'nominal', title: null, sort: null, axis: { labelLimit: 150 } };
  return draw({
    data: { values: rows },
    width: isStacked ? NARROW - 30 : NARROW - 80,
    height: { step: 22 },
    encoding: { y },
    layer: [
      {
        mark: { type: 'bar', ...(isStacked ? {} : { color: '#2f6fb0', opacity: 0.75 }) },
        encoding: {
          x: { field: 'value', type: 'quantitative', title },
          ...(isStacked
            ? {
                color: {
                  field: 'series',
                  type: 'nominal',
                  title: null,
                  legend: { columns: 3 },
                  scale: { scheme: 'tableau20' },
                },
              }
            : {}),
        },
      },
      ...(isStacked
        ? []
        : [
            {
              mark: { type: 'rule', strokeWidth: 2 },
              encoding: { x: { field: 'low', type: 'quantitative' }, x2: { field: 'high' } },
            },
          ]),
    ],
  } as unknown as TopLevelSpec);
}

const CLOSED = /^closed-loop\/\w+\/(warm|mixed|cold)\/d\d+\/c(\d+)\/(cpu|throughput|p50|p90|p99|p99\.9)$/;
const USUAL = 32;

/** The closed-loop figures of some quantities at a number of connections, as rows. */
function closedLoop({ figures }: Results, connections: number, quantities: readonly string[]) {
  return figures.flatMap((figure): { figure: Figure; traffic: string; quantity: string }[] => {
    const [, traffic = '', count, quantity = ''] = CLOSED.exec(figure.id) ?? [];
    return Number(count) === connections && quantities.includes(quantity)
      ? [{ figure, traffic, quantity }]
      : [];
  });
}

/** Draws every panel for which a run has figures. @returns SVGs by the panel's name in the report */
export async function drawPanels(results: Results): Promise<Record<string, string>> {
  const drawn: Record<string, string> = {};
  const add = async (name: string, rows: readonly Row[], make: () => Promise<string>) => {
    if (rows.length > 0) drawn[name] = await make();
  };
  const depth: Axis = { field: 'depth', title: 'receipts in the chain' };

  const cpu = closedLoop(results, USUAL, ['cpu']).map(({ figure, traffic }) => rowOf(figure, traffic, 1));
  const floors = cpu
    .filter(({ series }) => series !== 'mixed')
    .map((row): Row => {
      const signatures = row['series'] === 'warm' ? 1 : Number(row['depth']) + 1;
      const value = results.floorMicroseconds * signatures;
      return {
        ...row,
        series: `floor, ${row['series'] ?? ''}`,
        kind: 'floor',
        value,
        low: value,
        high: value,
      };
    });
  await add('cpu', cpu, () =>
    lines([...cpu, ...floors], depth, { title: 'processor time of a request, µs' }),
  );
  const rates = closedLoop(results, USUAL, ['throughput']).map(({ figure, traffic }) =>
    rowOf(figure, traffic, 1),
  );
  await add('throughput', rates, () => lines(rates, depth, { title: 'requests / s' }));

  for (const connections of [1, USUAL]) {
    const rows = closedLoop(results, connections, ['p50', 'p90', 'p99', 'p99.9'])
      .filter(({ traffic }) => traffic === 'warm')
      .map(({ figure, quantity }) => rowOf(figure, quantity, 1));
    await add(`percentiles-${connections}`, rows, () =>
      lines(rows, depth, { title: 'latency, µs', isLog: true, order: ['p50', 'p90', 'p99', 'p99.9'] }),
    );
  }

  for (const of of new Set(results.figures.map(({ id }) => /^open-loop\/warm\/d(\d+)\/at/.exec(id)?.[1]))) {
    if (of === undefined) continue;
    const rows = results.figures.flatMap((figure) => {
      const [, found, percentile] =
        /^open-loop\/warm\/d(\d+)\/at\d+\/(p50|p90|p99|p99\.9)$/.exec(figure.id) ?? [];
      return found === of && percentile !== undefined ? [rowOf(figure, percentile, 1)] : [];
    });
    const x: Axis = { field: 'load', title: '% of the closed-loop maximum', isOrdinal: true };
    await add(`open-loop-${of}`, rows, () =>
      lines(rows, x, { title: 'latency, µs', isLog: true, order: ['p50', 'p90', 'p99', 'p99.9'] }),
    );
  }

  for (const traffic of ['warm', 'cold']) {
    const rows = results.figures
      .filter(({ id }) => id.startsWith(`stages/${traffic}/`) && id.endsWith('/time'))
      .filter(({ parameters }) => parameters['stage'] !== 'signatures')
      .map((figure) => ({
        ...rowOf(figure, String(figure.parameters['stage']), 1),
        label: `depth ${figure.parameters['depth'] ?? ''}`,
      }));
    await add(`stages-${traffic}`, rows, () => bars(rows, 'µs, without the signatures', true));
  }

  for (const at of new Set(results.figures.map(({ id }) => /^peers\/[\w-]+\/d(\d+)\/cpu$/.exec(id)?.[1]))) {
    if (at === undefined) continue;
    const rows = results.figures
      .filter(({ id }) => id.startsWith('peers/') && id.endsWith(`/d${at}/cpu`))
      .map((figure) => ({ ...rowOf(figure, '', 1), label: String(figure.parameters['peer']) }));
    await add(`peers-${at}`, rows, () => bars(rows, 'processor time of a request, µs', false));
  }
  return drawn;
}
