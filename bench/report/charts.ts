import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { median } from 'simple-statistics';
import { intervalOf } from '../measure/interval.js';
import type { Figure, Results } from '../run/results.js';

/** A figure as a row of a chart: its parameters, the median of its runs and the interval of the median. */
type Row = Readonly<Record<string, string | number>>;

/** The width in px of a chart that fits, with its axis, on a phone of 390 px. */
const NARROW = 250;

const COLOURS = ['#2f6fb0', '#3b9b6b', '#d08a1d', '#b8433c'];

const CONFIG: TopLevelSpec['config'] = {
  background: 'white',
  font: 'system-ui, sans-serif',
  view: { stroke: '#cccccc' },
  legend: { orient: 'bottom', labelFontSize: 11 },
  axis: { gridColor: '#eeeeee', labelFontSize: 11, titleFontSize: 11, titleFontWeight: 'normal' },
  header: { labelFontSize: 12, titleFontSize: 12 },
};

/** Draws a chart. @returns an SVG */
async function draw(spec: TopLevelSpec): Promise<string> {
  const view = new View(parse(compile({ config: CONFIG, ...spec } as TopLevelSpec).spec), {
    renderer: 'none',
  });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}

export { draw, rowOf, NARROW, type Row };

const rowOf = (figure: Figure, series: string, scale: number): Row => {
  const { estimate, low, high } = intervalOf(figure.samples);
  return {
    ...figure.parameters,
    ...{ series, value: estimate * scale, low: low * scale, high: high * scale, runs: figure.samples.length },
  };
};

const PERCENTILE = /^latency\/(?:warm|cold)\/d\d+\/at\d+\/(p50|p90|p99|p99\.9)$/;

/** The rows of the headline: one for each depth, traffic, load and percentile. */
export function latencyRows({ figures, floorMicroseconds }: Results): Row[] {
  const rows = figures.flatMap((figure) => {
    const percentile = PERCENTILE.exec(figure.id)?.[1];
    return percentile === undefined ? [] : [rowOf(figure, percentile, 1)];
  });
  const points = new Map(
    rows.map(({ traffic = '', depth = 0, load = 0 }) => [
      `${traffic}/${depth}/${load}`,
      { traffic, depth: Number(depth), load },
    ]),
  );
  const floors = [...points.values()].map(({ traffic, depth, load }): Row => {
    const value = floorMicroseconds * (traffic === 'warm' ? 1 : depth + 1);
    return { traffic, depth, load, series: 'floor', value, low: value, high: value };
  });
  return [...rows, ...floors];
}

/** Draws latency by depth. @param isNarrow for a phone: panels below each other. @returns `null` if there is no data */
export async function drawLatency(results: Results, isNarrow = false): Promise<string | null> {
  const rows = latencyRows(results).map((row): Row => ({
    ...row,
    load: `${row['load'] ?? ''} % of capacity`,
    panel: `${row['traffic'] ?? ''}, ${row['load'] ?? ''} % of capacity`,
  }));
  if (rows.length === 0) return null;
  const depths = [...new Set(rows.map((row) => Number(row['depth'])))].sort((a, b) => a - b);
  const panels = [...new Set(rows.map((row) => String(row['panel'])))];
  const x = {
    field: 'depth',
    type: 'quantitative' as const,
    title: 'receipts in the chain',
    axis: { values: depths },
    scale: { domain: [Math.min(...depths) - 0.5, Math.max(...depths) + 0.5], nice: false },
  };
  const series = ['p99.9', 'p99', 'p90', 'p50', 'floor'];
  const color = {
    field: 'series',
    type: 'nominal',
    title: null,
    sort: series,
    scale: { domain: series, range: [...COLOURS.toReversed(), '#888888'] },
  } as const;
  return draw({
    data: { values: rows },
    ...(isNarrow
      ? { facet: { field: 'panel', type: 'nominal', title: null, sort: panels }, columns: 1 }
      : {
          facet: {
            row: { field: 'traffic', type: 'nominal', title: null, sort: ['warm', 'cold'] },
            column: { field: 'load', type: 'nominal', title: null },
          },
        }),
    spec: {
      width: isNarrow ? NARROW : 210,
      height: 180,
      encoding: { x, color },
      layer: [
        {
          mark: { type: 'line', point: { size: 22 } },
          encoding: {
            y: { field: 'value', type: 'quantitative', scale: { type: 'log' }, title: 'latency, µs' },
            strokeDash: {
              condition: { test: "datum.series === 'floor'", value: [4, 3] },
              value: [1, 0],
            },
          },
        },
        {
          transform: [{ filter: "datum.series !== 'floor'" }],
          mark: { type: 'rule', strokeWidth: 1.5, opacity: 0.6 },
          encoding: { y: { field: 'low', type: 'quantitative' }, y2: { field: 'high' } },
        },
      ],
    },
    resolve: { scale: { y: 'independent' } },
  });
}

const OVERLOAD = /^overload\/w-\w+\/x\d\/([\w-]+)$/;

/** The two rows of the overload picture: names of figures, and their labels in the picture. */
const RATES: Readonly<Record<string, string>> = {
  goodput: 'right answers',
  refused: 'refused',
  'timed-out': 'timed out',
};
const TIMES: Readonly<Record<string, string>> = {
  p99: 'p99 of accepted',
  'refusal-p99': 'p99 of refusals',
  'healthz-p99': 'p99 of /healthz',
};

/** Draws overload: the outcomes of requests, and the latencies of answers; `null` if the run has no such figures. */
export async function drawOverload({ figures }: Results, isNarrow = false): Promise<string | null> {
  const rowsOf = (names: Readonly<Record<string, string>>, scale: number): Row[] =>
    figures.flatMap((figure) => {
      const series = names[OVERLOAD.exec(figure.id)?.[1] ?? ''];
      if (series === undefined) return [];
      const row = rowOf(figure, series, scale);
      return [{ ...row, workers: `WORKER_THREADS=${row['workers'] ?? ''}` }];
    });
  const capacities = figures
    .filter(({ id }) => /^overload\/w-\w+\/capacity$/.test(id))
    .map((figure) => ({
      capacity: median(figure.samples),
      workers: `WORKER_THREADS=${figure.parameters['workers'] ?? ''}`,
    }));
  const rates = rowsOf(RATES, 1);
  if (rates.length === 0) return null;
  const panel = (
    rows: Row[],
    names: Readonly<Record<string, string>>,
    y: { readonly title: string; readonly scale?: object },
    line: object,
  ): object => {
    const series = Object.values(names);
    return {
      data: { values: rows },
      facet: { [isNarrow ? 'row' : 'column']: { field: 'workers', type: 'nominal', title: null } },
      spec: {
        width: 260,
        height: 180,
        layer: [
          line,
          {
            mark: { type: 'line', point: true },
            encoding: {
              ...OFFERED,
              y: { field: 'value', type: 'quantitative', ...y },
              color: colourOf(series),
            },
          },
          {
            mark: { type: 'rule', strokeWidth: 1.5, opacity: 0.6 },
            encoding: {
              ...OFFERED,
              y: { field: 'low', type: 'quantitative' },
              y2: { field: 'high' },
              color: colourOf(series),
            },
          },
        ],
      },
    };
  };
  const dashed = { type: 'rule', strokeDash: [4, 3], color: '#888888' };
  return draw({
    vconcat: [
      panel(
        rates.map((row) => ({ ...capacities.find(({ workers }) => workers === row['workers']), ...row })),
        RATES,
        { title: 'requests / s; dashed: capacity' },
        { mark: dashed, encoding: { y: { aggregate: 'mean', field: 'capacity', type: 'quantitative' } } },
      ),
      panel(
        rowsOf(TIMES, 0.001),
        TIMES,
        { title: 'ms; dashed: 150 ms', scale: { type: 'log' } },
        { mark: dashed, encoding: { y: { datum: 150, type: 'quantitative' } } },
      ),
    ],
    resolve: { scale: { color: 'independent' } },
  } as TopLevelSpec);
}

const OFFERED = {
  x: {
    field: 'factor',
    type: 'quantitative',
    title: 'offered, times the capacity',
    axis: { values: [1, 2, 3] },
    scale: { domain: [0.8, 3.2], nice: false },
  },
} as const;

const colourOf = (series: readonly string[]) => ({
  field: 'series',
  type: 'nominal',
  title: null,
  sort: series,
  scale: { domain: series, range: [COLOURS[1], COLOURS[2], COLOURS[3]] },
});

/** Draws figures by commit, one panel each, with intervals. Hollow points were measured on a busy machine. */
export async function drawHistory(
  entries: readonly {
    readonly commit: string;
    readonly figure: string;
    readonly machine: string;
    readonly median: number;
    readonly low: number;
    readonly high: number;
    readonly isNoisy: boolean;
  }[],
): Promise<string> {
  const rows = entries.map((entry) => ({ ...entry, commit: entry.commit.slice(0, 9) }));
  const commits = [...new Set(rows.map(({ commit }) => commit))];
  return draw({
    data: { values: rows },
    facet: { field: 'figure', type: 'nominal', title: null },
    columns: 2,
    spec: {
      width: 320,
      height: 120,
      encoding: {
        x: { field: 'commit', type: 'ordinal', sort: commits, title: null },
        color: { field: 'machine', type: 'nominal', title: null },
      },
      layer: [
        {
          mark: { type: 'rule' },
          encoding: { y: { field: 'low', type: 'quantitative', title: 'µs' }, y2: { field: 'high' } },
        },
        {
          mark: { type: 'point', size: 40 },
          encoding: {
            y: { field: 'median', type: 'quantitative' },
            fillOpacity: { condition: { test: 'datum.isNoisy', value: 0 }, value: 1 },
            fill: { field: 'machine', type: 'nominal', legend: null },
          },
        },
      ],
    },
    resolve: { scale: { y: 'independent' } },
  });
}
