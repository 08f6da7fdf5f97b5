import { draw, NARROW } from '../../bench/report/charts.js';
const PANELS = [
  ['rss', 'RSS, MB'],
  ['descriptors', 'open descriptors'],
  ['handles', 'handles'],
  ['p99', 'p99, ms'],
];
/** Draws the samples of a run, one panel below the other. @returns an SVG */
export async function plot(samples, title, settledHours) {
  return draw({
    title: { text: title, fontSize: 12, anchor: 'start' },
    vconcat: PANELS.map(([name, label]) => ({
      width: 2.4 * NARROW,
      height: 110,
      data: {
        values: samples
          .filter((sample) => Number.isFinite(sample[name]))
          .map((sample) => ({
            minutes: sample.hours * 60,
            value: sample[name],
            of: sample.isFlooded ? 'during a flood' : sample.hours < settledHours ? 'not judged' : 'judged',
          })),
      },
      mark: { type: 'point', filled: true, size: 14 },
      encoding: {
        x: { field: 'minutes', type: 'quantitative', title: 'minutes' },
        y: { field: 'value', type: 'quantitative', title: label, scale: { zero: true } },
        color: {
          field: 'of',
          type: 'nominal',
          title: null,
          scale: {
            domain: ['judged', 'not judged', 'during a flood'],
            range: ['#2f6fb0', '#aaaaaa', '#d08a1d'],
          },
        },
      },
    })),
  });
}
