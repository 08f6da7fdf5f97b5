import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { finderOf, type Estimate, type Figure, type Results } from '../run/results.js';

const COLOURS = {
  answered: '#3b9b6b',
  refused: '#d08a1d',
  'timed out': '#b8433c',
  p99: '#b8433c',
  p50: '#2f6fb0',
  warm: '#b8433c',
  cold: '#2f6fb0',
  grey: '#8a9099',
} as const;

const CONFIG: TopLevelSpec['config'] = {
  background: 'white',
  font: 'system-ui, sans-serif',
  view: { stroke: '#cccccc' },
  legend: { orient: 'bottom', labelFontSize: 12 },
  axis: { gridColor: '#eeeeee', labelFontSize: 12, titleFontSize: 12, titleFontWeight: 'normal' },
  title: { fontSize: 14, anchor: 'start', subtitleFontSize: 12, subtitleColor: '#555555' },
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

/** A point of a line: a figure, and where it is on the axis. */
interface Row extends Estimate {
  readonly x: number;
  readonly series: string;
}

interface Panel {
  readonly title: string;
  readonly rows: readonly Row[];
  readonly x: object;
  /** A grey band from the bottom up to here, and what it says. */
  readonly band?: { readonly upTo: number; readonly label: string } | null;
}

const rowOf = (figure: Figure, x: number, series: string, scale: number): Row => ({
  ...{ x, series, median: figure.median * scale, low: figure.low * scale, high: figure.high * scale },
});

/** Draws panels of lines with their intervals, all on one axis. Each line has its name at its right end. */
function drawPanels(
  panels: readonly Panel[],
  y: { readonly title: string; readonly isLog: boolean },
  size: { readonly width: number; readonly title?: object },
): Promise<string> {
  const isNarrow = size.width < 500;
  const all = panels.flatMap(({ rows, band }) => [
    ...rows.flatMap(({ low, high }) => [low, high]),
    ...(band ? [band.upTo] : []),
  ]);
  // In powers of ten, and a half of one: 1, 3, 10, …
  const decade = (value: number, round: (value: number) => number) =>
    10 ** (round(2 * Math.log10(value)) / 2);
  const least = y.isLog ? decade(Math.min(...all), Math.floor) : 0;
  const most = y.isLog ? decade(Math.max(...all), Math.ceil) : 1.1 * Math.max(...all);
  const scale = { type: y.isLog ? 'log' : 'linear', domain: [least, most], nice: false };
  const ticks = y.isLog
    ? { values: [0.01, 0.1, 1, 10, 100, 1000].filter((at) => at >= least && at <= most) }
    : {};
  const series = [...new Set(panels.flatMap(({ rows }) => rows.map((row) => row.series)))];
  const known: Readonly<Record<string, string>> = COLOURS;
  const color = {
    ...{ field: 'series', type: 'nominal', legend: null },
    scale: { domain: series, range: series.map((name) => known[name] ?? COLOURS.grey) },
  };
  const specs = panels.map(({ title, rows, x, band }, at) => {
    const axis = { ...ticks, title: at === 0 || isNarrow ? y.title : null, labels: at === 0 || isNarrow };
    const value = (field: string) => ({ field, type: 'quantitative', scale, axis });
    const last = Math.max(...rows.map((row) => row.x));
    return {
      title: { text: title, fontSize: 13, fontWeight: 'normal', frame: 'group' },
      width: isNarrow ? size.width - 100 : (size.width - 95) / panels.length - 35,
      height: 230,
      data: { values: rows },
      encoding: { x: { field: 'x', type: 'quantitative', ...x } },
      layer: [
        ...(band
          ? [
              {
                data: { values: [{ from: least, to: band.upTo }] },
                mark: { type: 'rect', color: '#dfe2e6' },
                encoding: { x: null, y: value('from'), y2: { field: 'to' } },
              },
              {
                data: { values: [{ from: least }] },
                mark: {
                  type: 'text',
                  text: band.label,
                  align: 'left',
                  dy: -9,
                  color: '#555d66',
                  fontSize: 11,
                },
                encoding: { x: { value: 5 }, y: value('from') },
              },
            ]
          : []),
        {
          mark: { type: 'rule', strokeWidth: 2, opacity: 0.35 },
          encoding: { y: value('low'), y2: { field: 'high' }, color },
        },
        {
          mark: { type: 'line', point: { size: 34 }, strokeWidth: 2 },
          encoding: {
            ...{ y: value('median'), color },
            strokeDash: {
              condition: { test: "datum.series === 'signatures'", value: [4, 3] },
              value: [1, 0],
            },
          },
        },
        {
          transform: [{ filter: `datum.x === ${last}` }],
          mark: { type: 'text', align: 'left', dx: 6, fontSize: 12, fontWeight: 'bold' },
          encoding: { y: value('median'), text: { field: 'series' }, color },
        },
      ],
    };
  });
  return draw({
    ...(size.title === undefined ? {} : { title: size.title }),
    ...(isNarrow ? { vconcat: specs } : { hconcat: specs, bounds: 'flush' }),
    ...{ padding: { left: 5, top: 5, bottom: 5, right: 30 }, spacing: isNarrow ? 22 : 55 },
  } as unknown as TopLevelSpec);
}

/** Depths are doubled along the axis, like chains grow. */
const depthAxis = (depths: readonly number[]) => ({
  title: 'receipts in the chain',
  axis: { values: depths, format: 'd', grid: false },
  scale: { type: 'log', base: 2, domain: [0.9, Math.max(...depths) * 1.12], nice: false },
});

const depthsIn = ({ figures }: Results, pattern: RegExp) =>
  [...new Set(figures.flatMap(({ id }) => Number(pattern.exec(id)?.[1] ?? Number.NaN)))]
    .filter((depth) => !Number.isNaN(depth))
    .sort((a, b) => a - b);

/** What the machine alone adds: p99 of the generator against a server that does nothing, in ms. */
function machineBand(results: Results) {
  const figure = finderOf(results)('latency/machine/p99');
  return figure === undefined ? null : { upTo: figure.median / 1000, label: 'grey: the machine alone' };
}

/**
 * Draws latency by depth at half the capacity, warm and cold, on one axis; in grey, what the machine adds by itself.
 *
 * @param width in px; below 500, panels are below each other
 * @returns `null` if there is no data
 */
export async function drawLatency(results: Results, width: number): Promise<string | null> {
  const find = finderOf(results);
  const depths = depthsIn(results, /^latency\/warm\/d(\d+)\/at50\/p50$/);
  if (depths.length === 0) return null;
  const panels = (['warm', 'cold'] as const).map((traffic): Panel => {
    const rows = depths.flatMap((depth) =>
      (['p50', 'p99'] as const).flatMap((series) => {
        const figure = find(`latency/${traffic}/d${depth}/at50/${series}`);
        return figure === undefined ? [] : [rowOf(figure, depth, series, 1 / 1000)];
      }),
    );
    const title = traffic === 'warm' ? 'warm: the receipts are known' : 'cold: all receipts are new';
    return { title, rows, x: depthAxis(depths), band: machineBand(results) };
  });
  const title = {
    text: 'Time to a verdict at half the capacity',
    // The layout takes a line of text for wider than it is.
    subtitle: [
      'grey: p99 of a server that does nothing, on this machine',
      'bars: the intervals of the medians',
    ],
  };
  return drawPanels(panels, { title: 'ms', isLog: true }, width < 500 ? { width } : { width, title });
}

/** Draws processor time by depth beside the signatures alone. */
export async function drawCost(results: Results, width: number): Promise<string | null> {
  const find = finderOf(results);
  const depths = depthsIn(results, /^throughput\/warm\/d(\d+)\/c32\/cpu$/);
  if (depths.length === 0) return null;
  const panels = (['warm', 'cold'] as const).map((traffic): Panel => {
    const rows = depths.flatMap((depth) => {
      const floors = find(`throughput/${traffic}/d${depth}/c32/cpu`)?.floors;
      if (!floors) return [];
      const median = traffic === 'warm' ? 1 : depth + 1;
      return [
        { ...floors, x: depth, series: traffic },
        { x: depth, series: 'signatures', median, low: median, high: median },
      ];
    });
    return { title: `${traffic}, 32 connections`, rows, x: depthAxis(depths) };
  });
  return drawPanels(panels, { title: 'processor time, floors', isLog: true }, { width });
}

/** Draws p50 and p99 by load: where is the knee? */
export async function drawKnee(results: Results, width: number): Promise<string | null> {
  const panels = (['warm', 'cold'] as const).flatMap((traffic): Panel[] => {
    const rows = results.figures.flatMap((figure) => {
      const [, of, load, series] = /^latency\/(\w+)\/d4\/at(\d+)\/(p50|p99)$/.exec(figure.id) ?? [];
      return of === traffic && series !== undefined ? [rowOf(figure, Number(load), series, 1 / 1000)] : [];
    });
    const axis = { values: [25, 50, 75, 90], grid: false };
    const x = { title: '% of the capacity', axis, scale: { domain: [15, 105], nice: false } };
    return rows.length < 4 ? [] : [{ title: `${traffic}, depth 4`, rows, x, band: machineBand(results) }];
  });
  return panels.length === 0 ? null : drawPanels(panels, { title: 'ms', isLog: true }, { width });
}

/** Draws what becomes of requests above the capacity. */
export async function drawOverload(results: Results, width: number): Promise<string | null> {
  const find = finderOf(results);
  const names = { goodput: 'answered', refused: 'refused', 'timed-out': 'timed out' };
  const panels = (['some', '0'] as const).flatMap((workers): Panel[] => {
    const capacity = find(`overload/w-${workers}/capacity`);
    const rows = [1, 2, 3].flatMap((factor) =>
      Object.entries(names).flatMap(([name, series]) => {
        const figure = find(`overload/w-${workers}/x${factor}/${name}`);
        return figure === undefined || capacity === undefined
          ? []
          : [rowOf(figure, factor, series, 1 / capacity.median)];
      }),
    );
    const axis = { values: [1, 2, 3], grid: false };
    const x = { title: 'offered, times the capacity', axis, scale: { domain: [0.8, 3.6], nice: false } };
    const title = workers === '0' ? 'without workers, cold' : 'with workers, cold';
    return rows.length === 0 ? [] : [{ title, rows, x }];
  });
  return panels.length === 0
    ? null
    : drawPanels(panels, { title: 'times the capacity', isLog: false }, { width });
}

/** Draws where the processor time of a request goes, by the parts of the service. */
export async function drawParts(results: Results, width: number): Promise<string | null> {
  const rows = results.figures.flatMap(({ id, median, parameters }) =>
    id.startsWith('throughput/parts/')
      ? [
          {
            label: `${parameters['traffic']}, depth ${parameters['depth']}`,
            part: parameters['part'],
            share: median,
          },
        ]
      : [],
  );
  if (rows.length === 0) return null;
  const isNarrow = width < 500;
  return draw({
    data: { values: rows },
    ...{ width: width - (isNarrow ? 110 : 120), height: { step: 30 } },
    mark: { type: 'bar' },
    encoding: {
      y: { field: 'label', type: 'nominal', title: null, sort: null },
      x: {
        ...{ field: 'share', type: 'quantitative', stack: 'normalize', title: 'share of the processor time' },
        axis: { format: '%' },
      },
      color: {
        ...{ field: 'part', type: 'nominal', title: null, sort: null },
        ...{ legend: { columns: isNarrow ? 1 : 4, labelLimit: 250 }, scale: { scheme: 'tableau10' } },
      },
      order: { field: 'share', sort: 'descending', type: 'quantitative' },
    },
  } as unknown as TopLevelSpec);
}

/** Draws the processor time of peers at one depth, with intervals, on a logarithmic axis. */
export async function drawPeers(results: Results, width: number): Promise<string | null> {
  const rows = results.figures.flatMap(({ id, floors }) => {
    const [, label] = /^peers\/([\w-]+)\/d4\/cpu$/.exec(id) ?? [];
    return label === undefined || floors === null ? [] : [{ label, ...floors }];
  });
  if (rows.length === 0) return null;
  const scale = { type: 'log', domainMin: 1 };
  const x = (field: string) => ({
    field,
    type: 'quantitative',
    scale,
    title: 'processor time at depth 4, floors',
  });
  return draw({
    data: { values: rows },
    ...{ width: width - 130, height: { step: 30 } },
    encoding: { y: { field: 'label', type: 'nominal', title: null, sort: null } },
    layer: [
      {
        mark: { type: 'rule', strokeWidth: 2, opacity: 0.5 },
        encoding: { x: x('low'), x2: { field: 'high' } },
      },
      { mark: { type: 'point', filled: true, size: 70, color: COLOURS.p50 }, encoding: { x: x('median') } },
      {
        mark: { type: 'text', dy: -10, fontSize: 11 },
        encoding: { x: x('median'), text: { field: 'median', type: 'quantitative', format: '.3~r' } },
      },
    ],
  } as unknown as TopLevelSpec);
}
