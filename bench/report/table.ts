import { finderOf, noisyIn, type Figure, type Results } from '../run/results.js';
import { checkBars, type CheckedBar } from './bars.js';
import { fitModel } from './model.js';

/** Figures that only results.json has, not the terminal. */
const LEFT_OUT = /(?<!\/all)\/(p90|p99\.9|rate|kept-up|body|send-delay-p99)$/;

/** The text that a run prints at its end: every main figure, the bars if there are verdicts, and what was skipped. */
export function renderTable(results: Results): string {
  const { figures, interference, skipped, notes, floorMicroseconds } = results;
  const rows = figures.filter(({ id }) => !LEFT_OUT.test(id)).map(rowOf);
  const lines = [
    `\n1 floor = ${floorMicroseconds.toFixed(1)} µs: one libsodium verification on one core of this machine, now\n`,
    ...align([['figure', 'median', 'interval', 'floors', 'runs'], ...rows]),
  ];
  const model = fitModel(finderOf(results));
  if (model !== null) {
    const { fixed, perSignature, perKilobyte, worstError } = model;
    lines.push(
      `\nprocessor time of a request = ${fixed.toFixed(0)} µs + ${perSignature.toFixed(0)} µs for each signature + ` +
        `${perKilobyte.toFixed(1)} µs for each kB of body; the largest error is ${(100 * worstError).toFixed(0)} %`,
    );
  }
  const bars = ['full', 'all'].includes(results.mode) ? checkBars(results) : [];
  if (bars.length > 0) lines.push('', ...align([BAR_HEAD, ...bars.map(cellsOf)]));
  const noisy = noisyIn(results).length;
  if (noisy > 0)
    lines.push(
      `NOISY: others had more than a tenth of the cores in ${noisy} of ${interference.length} measurements`,
    );
  for (const { what, reason } of skipped) lines.push(`skipped: ${what}: ${reason}`);
  for (const note of notes) lines.push(`note: ${note}`);
  return `${lines.join('\n')}\n`;
}

const BAR_HEAD = ['bar', 'measured', 'interval', 'limit', ''];

/** The cells of a bar under {@link BAR_HEAD}. */
function cellsOf({ bar, median, low, high, verdict }: CheckedBar): string[] {
  const show = (value: number) => formatValue(value, '');
  const unit = bar.unit === '/s' ? ' /s' : ` ${bar.unit}`;
  return [bar.what, `${show(median)}${unit}`, `${show(low)} … ${show(high)}`, show(bar.limit), verdict];
}

function rowOf({ id, median, low, high, unit, floors, runs }: Figure): string[] {
  // A rate in floors means verdicts in the time of one floor. That helps comparisons, but not readers.
  const inFloors = floors === null || unit === '1/s' ? '' : floors.median.toFixed(2);
  const interval = runs > 1 ? `${formatValue(low, unit)} … ${formatValue(high, unit)}` : '';
  return [id, formatValue(median, unit), interval, inFloors, String(runs)];
}

/** Formats a number: three significant digits, thousands with commas, bytes in MB. */
export function formatValue(value: number, unit: string): string {
  const show = (number: number) =>
    number.toLocaleString(
      'en-GB',
      Math.abs(number) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 },
    );
  if (unit === 'count') return show(value);
  if (unit === 'bytes') return `${show(value / 1e6)} MB`;
  if (unit === 'ratio') return `${show(100 * value)} %`;
  if (unit === 'µs' && value >= 10_000) return `${show(value / 1000)} ms`;
  return unit === '1/s' ? `${show(value)} /s` : `${show(value)} ${unit}`.trim();
}

/** Lines of columns; the first is aligned at its left. */
export function align(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const pad = (cell: string, column: number) =>
    column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0);
  return rows.map((row) => row.map(pad).join('  ').trimEnd());
}
