import { NOISY, stripOf } from '../compare/outcome.js';
import type { Figure, Results } from '../run/results.js';
import { checkBars } from './bars.js';
import { formatValue } from './format.js';

/** Figures that only the report shows, not the terminal. */
const LEFT_TO_REPORT = /\/(p90|p99\.9|max|generator-cpu|send-delay-p50|bytes)$/;

/** The text that a run prints at its end: every main figure, the bars, and what was skipped. */
export function renderTable(results: Results): string {
  const { figures, skipped, notes, floorMicroseconds } = results;
  const rows = figures.filter(({ id }) => !LEFT_TO_REPORT.test(id)).map(rowOf);
  const lines = [
    `\n1 floor = ${floorMicroseconds.toFixed(1)} µs: one libsodium verification on one core of this machine, now\n`,
    ...align([['figure', 'median', 'floors', 'spread', 'runs'], ...rows]),
  ];
  const bars = checkBars(results);
  if (bars.length > 0) {
    lines.push('\nBars (ratio to the floor of this run)\n');
    const rowsOfBars = bars.map(({ bar, measured, low, high, verdict }) => [
      ...[
        bar.what,
        bar.show(measured),
        `${bar.show(low)} … ${bar.show(high)}`,
        bar.show(bar.bar),
        bar.show(bar.aim),
        verdict,
      ],
    ]);
    lines.push(...align([['bar', 'measured', 'interval', 'bar', 'aim', ''], ...rowsOfBars]));
  }
  lines.push(...describeInterference(results));
  for (const { what, reason } of skipped) lines.push(`skipped: ${what}: ${reason}`);
  for (const note of notes) lines.push(`note: ${note}`);
  return `${lines.join('\n')}\n`;
}

/** The load by other programs during the run, as a strip in the order of measuring, with a flag if it was too high. */
function describeInterference({ interference }: Results): string[] {
  if (interference.length === 0) return [];
  const noisy = interference.filter(({ others, stolen }) => others + stolen > NOISY);
  const strip = stripOf(interference.map(({ others, stolen }) => others + stolen));
  return [
    `\nOthers on the cores while each figure was taken: ${strip}`,
    ...(noisy.length > 0
      ? [
          `NOISY: others had more than a tenth of the cores in ${noisy.length} of ${interference.length} measurements`,
        ]
      : []),
  ];
}

function rowOf({ id, median, unit, floors, spread, samples }: Figure): string[] {
  return [
    id,
    formatValue(median, unit),
    // A rate in floors means verdicts in the time of one floor. That helps comparisons, but not readers.
    floors === null || unit === '1/s' ? '' : floors.toFixed(2),
    samples.length > 1 ? `${(100 * spread).toFixed(0)} %` : '',
    String(samples.length),
  ];
}

function align(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  );
}
