import { finderOf, type Figure, type Figures } from '../run/results.js';
import { FACTORS, POOLS } from '../suites/overload.js';
import { draw, drawPanels, isNarrow, type Panel, type Point } from './panels.js';

// Each chart takes its width in px, and is `null` if nothing was measured that it shows.

const TRAFFIC = ['warm', 'cold'] as const;

/** The figure as a point, or nothing if it was not measured. */
function pointOf(figure: Figure | undefined, x: number, series: string, scale: number): Point[] {
  if (figure === undefined) return [];
  const [median, low, high] = [figure.median * scale, figure.low * scale, figure.high * scale];
  return [{ x, series, median, low, high }];
}

/** Values double along the axis, like chains grow. */
const doublingAxis = (title: string, values: readonly number[], domain: readonly [number, number]) => ({
  ...{ title, axis: { values, format: 'd', grid: false } },
  scale: { type: 'log', base: 2, domain, nice: false },
});

const depthAxis = (depths: readonly number[]) =>
  doublingAxis('receipts in the chain', depths, [0.9, Math.max(...depths) * 1.12]);

const evenAxis = (title: string, values: readonly number[], domain: readonly [number, number]) => ({
  ...{ title, axis: { values, grid: false }, scale: { domain, nice: false } },
});

const depthsIn = ({ figures }: Figures, pattern: RegExp) =>
  [...new Set(figures.map(({ id }) => Number(pattern.exec(id)?.[1])))]
    .filter((depth) => !Number.isNaN(depth))
    .sort((a, b) => a - b);

/** What the machine alone adds: p99 of the generator against a server that does nothing, in ms. */
function machineBand(results: Figures) {
  const figure = finderOf(results)('latency/machine/p99');
  return figure === undefined ? null : { upTo: figure.median / 1000, label: 'grey: the machine alone' };
}

/** Draws latency by depth at half the capacity, warm and cold, on one axis; in grey, what the machine adds by itself. */
export function drawLatency(results: Figures, width: number): Promise<string | null> {
  const find = finderOf(results);
  const depths = depthsIn(results, /^latency\/warm\/d(\d+)\/at50\/p50$/);
  const panels = TRAFFIC.map((traffic): Panel => {
    const points = depths.flatMap((depth) =>
      ['p50', 'p99'].flatMap((series) =>
        pointOf(find(`latency/${traffic}/d${depth}/at50/${series}`), depth, series, 1 / 1000),
      ),
    );
    const title = traffic === 'warm' ? 'warm: the receipts are known' : 'cold: all receipts are new';
    return { title, points, x: depthAxis(depths), band: machineBand(results) };
  });
  const title = {
    text: 'Time to a verdict at half the capacity',
    // The layout takes a line of text for wider than it is.
    subtitle: [
      'grey: p99 of a server that does nothing, on this machine',
      'bars: the intervals of the medians',
    ],
  };
  return drawPanels(panels, { yTitle: 'ms', isLog: true, width, title });
}

/** Draws processor time by depth beside the signatures alone. */
export function drawCost(results: Figures, width: number): Promise<string | null> {
  const find = finderOf(results);
  const depths = depthsIn(results, /^throughput\/warm\/d(\d+)\/c32\/cpu$/);
  const panels = TRAFFIC.map((traffic): Panel => {
    const points = depths.flatMap((depth): Point[] => {
      const floors = find(`throughput/${traffic}/d${depth}/c32/cpu`)?.floors;
      if (!floors) return [];
      const median = traffic === 'warm' ? 1 : depth + 1;
      return [
        { ...floors, x: depth, series: traffic },
        { x: depth, series: 'signatures', median, low: median, high: median },
      ];
    });
    return { title: `${traffic}, 32 connections`, points, x: depthAxis(depths) };
  });
  return drawPanels(panels, { yTitle: 'processor time, floors', isLog: true, width });
}

/** Draws p50 and p99 by load: where is the knee? */
export function drawKnee(results: Figures, width: number): Promise<string | null> {
  const panels = TRAFFIC.map((traffic): Panel => {
    const points = results.figures.flatMap((figure) => {
      const [, of, load, series = ''] = /^latency\/(\w+)\/d4\/at(\d+)\/(p50|p99)$/.exec(figure.id) ?? [];
      return of === traffic ? pointOf(figure, Number(load), series, 1 / 1000) : [];
    });
    const x = evenAxis('% of the capacity', [25, 50, 75, 90], [15, 105]);
    const loads = new Set(points.map((point) => point.x));
    return {
      ...{ title: `${traffic}, depth 4`, x, band: machineBand(results) },
      points: loads.size > 1 ? points : [],
    };
  });
  return drawPanels(panels, { yTitle: 'ms', isLog: true, width });
}

/** Draws what becomes of requests above the capacity. */
export function drawOverload(results: Figures, width: number): Promise<string | null> {
  const find = finderOf(results);
  const names = { goodput: 'answered', refused: 'refused', 'timed-out': 'given up' };
  const capacity = find('overload/w-default/capacity')?.median ?? Number.NaN;
  const panels = POOLS.map((pool): Panel => {
    const points = FACTORS.flatMap((factor) =>
      Object.entries(names).flatMap(([name, series]) =>
        pointOf(find(`overload/w-default/pool-${pool}/x${factor}/${name}`), factor, series, 1 / capacity),
      ),
    );
    const { axis, ...x } = evenAxis('offered, times the capacity', FACTORS, [0.7, 6]);
    return { title: `${pool} connections, cold`, points, x: { ...x, axis: { ...axis, format: '.1f' } } };
  });
  return drawPanels(panels, { yTitle: 'times the capacity', isLog: false, width });
}

/** Draws what a verdict costs by the lines that share its exchange. */
export function drawBatches(results: Figures, width: number): Promise<string | null> {
  const panels = [1, 4, 16].map((depth): Panel => {
    const points = results.figures.flatMap(({ id, floors }): Point[] => {
      const [, series, of, lines] = /^batch\/(\w+)\/tcp\/d(\d+)\/b(\d+)\/cpu$/.exec(id) ?? [];
      return series && Number(of) === depth && floors ? [{ ...floors, x: Number(lines), series }] : [];
    });
    const x = doublingAxis('lines in a batch', [1, 4, 16, 64, 256], [0.8, 300]);
    return { title: `depth ${depth}`, points, x };
  });
  return drawPanels(panels, { yTitle: 'processor time, floors', isLog: true, width });
}

/** Draws where the processor time of a request goes, by the parts of the service. */
export async function drawParts(results: Figures, width: number): Promise<string | null> {
  const rows = results.figures.flatMap(({ id, median }) => {
    const [, traffic, depth, part] = /^throughput\/parts\/(\w+)\/d(\d+)\/(.*)$/.exec(id) ?? [];
    return part === undefined ? [] : [{ label: `${traffic}, depth ${depth}`, part, share: median }];
  });
  if (rows.length === 0) return null;
  const legend = { columns: isNarrow(width) ? 1 : 4, labelLimit: 250 };
  const share = { field: 'share', type: 'quantitative' };
  return await draw({
    data: { values: rows },
    ...{ width: width - 120, height: { step: 30 }, mark: { type: 'bar' } },
    encoding: {
      y: { field: 'label', type: 'nominal', title: null, sort: null },
      x: { ...share, stack: 'normalize', title: 'share of the processor time', axis: { format: '%' } },
      color: {
        ...{ field: 'part', type: 'nominal', title: null, sort: null },
        ...{ legend, scale: { scheme: 'tableau10' } },
      },
      order: { ...share, sort: 'descending' },
    },
  });
}
