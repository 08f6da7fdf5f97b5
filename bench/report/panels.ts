import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { Estimate } from '../measure/statistics.js';

const COLOURS: Readonly<Record<string, string>> = {
  ...{ answered: '#3b9b6b', refused: '#d08a1d', 'given up': '#b8433c' },
  ...{ 'p99.9': '#7b3fa0', p99: '#b8433c', p50: '#2f6fb0', warm: '#b8433c', cold: '#2f6fb0' },
};
const GREY = '#8a9099';

const CONFIG: TopLevelSpec['config'] = {
  background: 'white',
  font: 'system-ui, sans-serif',
  view: { stroke: '#cccccc' },
  legend: { orient: 'bottom', labelFontSize: 12 },
  axis: { gridColor: '#eeeeee', labelFontSize: 12, titleFontSize: 12, titleFontWeight: 'normal' },
  title: { fontSize: 14, anchor: 'start', subtitleFontSize: 12, subtitleColor: '#555555' },
};

/** In px: as wide as a README is on most screens. */
const WIDTH = 640;

/** A point of a line, and where it is on the axis. */
export interface Point extends Estimate {
  readonly x: number;
  readonly series: string;
}

export interface Panel {
  readonly title: string;
  readonly points: readonly Point[];
  /** The axis, as Vega-Lite wants it. */
  readonly x: object;
  /** What the machine alone adds: a grey band from the bottom up to here. */
  readonly band?: number | undefined;
}

export interface Frame {
  readonly yTitle: string;
  readonly isLog: boolean;
  readonly title?: object;
}

/**
 * Draws panels of lines with their intervals, all on one axis. Each line has its name at its right end. Panels without
 * points are left out.
 *
 * @returns `null` if nothing is left
 */
export async function drawPanels(given: readonly Panel[], frame: Frame): Promise<string | null> {
  const panels = given.filter(({ points }) => points.length > 0);
  if (panels.length === 0) return null;
  const { title } = frame;
  const y = axisOf(panels, frame);
  const series = [...new Set(panels.flatMap(({ points }) => points.map((point) => point.series)))];
  const color = {
    ...{ field: 'series', type: 'nominal', legend: null },
    scale: { domain: series, range: series.map((name) => COLOURS[name] ?? GREY) },
  };
  const specs = panels.map((panel, at) => {
    // The numbers are at the left end of a row only.
    const isLeft = at === 0;
    // Those of the others are there, unseen: without them, their titles would stand lower.
    const axis = { ...y.axis, title: isLeft ? frame.yTitle : null, labelOpacity: isLeft ? 1 : 0 };
    const value = (field: string) => ({ field, type: 'quantitative', scale: y.scale, axis });
    return {
      title: { text: panel.title, fontSize: 13, fontWeight: 'normal', frame: 'group' },
      width: (WIDTH - 95) / panels.length - 43,
      height: 230,
      data: { values: panel.points },
      encoding: { x: { field: 'x', type: 'quantitative', ...panel.x } },
      layer: [...bandOf(panel, y.least, value), ...linesOf(panel, color, value)],
    };
  });
  const spec = {
    ...{ config: CONFIG, ...(title && { title }), hconcat: specs, bounds: 'flush' },
    ...{ padding: { left: 5, top: 5, bottom: 5, right: 30 }, spacing: 72 },
  };
  return await new View(parse(compile(spec as TopLevelSpec).spec), { renderer: 'none' }).toSVG();
}

function axisOf(panels: readonly Panel[], { isLog }: Frame) {
  const all = panels.flatMap(({ points, band }) => [
    ...points.flatMap(({ low, high }) => [low, high]),
    ...(band === undefined ? [] : [band]),
  ]);
  // In powers of ten, and a half of one: 1, 3, 10, …
  const decade = (value: number, round: (value: number) => number) =>
    10 ** (round(2 * Math.log10(value)) / 2);
  const least = isLog ? decade(Math.min(...all), Math.floor) : 0;
  const most = isLog ? decade(Math.max(...all), Math.ceil) : 1.1 * Math.max(...all);
  const values = [0.01, 0.1, 1, 10, 100, 1000].filter((at) => at >= least && at <= most);
  return {
    least,
    axis: isLog ? { values } : {},
    scale: { type: isLog ? 'log' : 'linear', domain: [least, most], nice: false },
  };
}

type Value = (field: string) => object;

function bandOf({ band }: Panel, least: number, value: Value): object[] {
  if (band === undefined) return [];
  const label = 'grey: the machine alone';
  const text = { type: 'text', text: label, align: 'left', dy: 11, color: '#555d66', fontSize: 11 };
  return [
    {
      data: { values: [{ from: least, to: band }] },
      mark: { type: 'rect', color: '#dfe2e6' },
      encoding: { x: null, y: value('from'), y2: { field: 'to' } },
    },
    {
      // At its top: lines may run along its bottom.
      data: { values: [{ from: band }] },
      mark: text,
      encoding: { x: { value: 5 }, y: value('from') },
    },
  ];
}

function linesOf({ points }: Panel, color: object, value: Value): object[] {
  const ends = points.filter(({ series, x }) => !points.some((at) => at.series === series && at.x > x));
  return [
    {
      mark: { type: 'rule', strokeWidth: 2, opacity: 0.35 },
      encoding: { y: value('low'), y2: { field: 'high' }, color },
    },
    {
      mark: { type: 'line', point: { size: 34 }, strokeWidth: 2 },
      encoding: { y: value('median'), color },
    },
    {
      data: { values: ends },
      mark: { type: 'text', align: 'left', dx: 6, fontSize: 12, fontWeight: 'bold' },
      encoding: { y: value('median'), text: { field: 'series' }, color },
    },
  ];
}
