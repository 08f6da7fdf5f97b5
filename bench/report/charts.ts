import type { Figure, Finder } from '../run/results.js';
import { SIZES } from '../suites/batch.js';
import { FACTORS, POOLS } from '../suites/overload.js';
import { drawPanels, type Panel, type Point } from './panels.js';

const TRAFFIC = ['warm', 'cold'] as const;
/** In percent of the capacity. */
export const LOADS = [10, 30, 50, 70, 90] as const;

/** The figure as a point, or nothing if it was not measured. */
function pointOf(figure: Figure | undefined, x: number, series: string, scale: number): Point[] {
  if (figure === undefined) return [];
  const [median, low, high] = [figure.median * scale, figure.low * scale, figure.high * scale];
  return [{ x, series, median, low, high }];
}

const evenAxis = (title: string, values: readonly number[], domain: readonly [number, number]) => ({
  ...{ title, axis: { values, grid: false }, scale: { domain, nice: false } },
});

/** Draws latency by load, percentiles of all runs together; in grey, what the machine adds by itself. */
function drawLoads(find: Finder): Promise<string | null> {
  // In ms: p99 of the generator against a server that does nothing.
  const machine = find('latency/machine/all/p99');
  const band = machine && machine.median / 1000;
  const panels = TRAFFIC.map((traffic): Panel => {
    const points = LOADS.flatMap((load) =>
      ['p50', 'p99', 'p99.9'].flatMap((series) =>
        pointOf(find(`latency/${traffic}/d4/at${load}/all/${series}`), load, series, 1 / 1000),
      ),
    );
    const x = evenAxis('% of the capacity', LOADS, [5, 105]);
    const title = traffic === 'warm' ? 'warm: the receipts are known' : 'cold: all receipts are new';
    return { title, x, points, band };
  });
  const title = {
    text: 'Time to a verdict on a chain of 4 receipts',
    subtitle: 'grey: p99 of a server that does nothing, on this machine',
  };
  return drawPanels(panels, { yTitle: 'ms', isLog: true, title });
}

/** Draws what becomes of requests above the capacity. */
function drawOverload(find: Finder): Promise<string | null> {
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
  return drawPanels(panels, { yTitle: 'times the capacity', isLog: false });
}

/** Draws what a verdict costs by the lines that share its exchange. */
function drawBatches(find: Finder): Promise<string | null> {
  const panels = [1, 4, 16].map((depth): Panel => {
    const points = TRAFFIC.flatMap((series) =>
      SIZES.flatMap((lines): Point[] => {
        const floors = find(`batch/${series}/d${depth}/b${lines}/cpu`)?.floors;
        return floors ? [{ ...floors, x: lines, series }] : [];
      }),
    );
    const scale = { type: 'log', base: 2, domain: [0.8, 300], nice: false };
    const x = { title: 'lines in a batch', axis: { values: SIZES, format: 'd', grid: false }, scale };
    return { title: `depth ${depth}`, points, x };
  });
  return drawPanels(panels, { yTitle: 'processor time, floors', isLog: true });
}

/** The pictures by their names. Each is `null` if nothing was measured that it shows. */
export const PICTURES = {
  ...{ 'latency-by-load': drawLoads, overload: drawOverload, batches: drawBatches },
};
