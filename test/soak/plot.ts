import { draw, NARROW } from '../../bench/report/charts.js';
import type { Sample } from './sample.js';

const PANELS = [
  ['rss', 'RSS, MB'],
  ['descriptors', 'open descriptors'],
  ['handles', 'handles'],
  ['p99', 'p99, ms'],
  ['processorShare', 'busy share of its cores'],
  ['rate', 'answers a second'],
] as const;

/** Draws the samples of a run, with the panels below each other. @returns an SVG */
export async function plot(samples: readonly Sample[], title: string, settledHours: number): Promise<string> {
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
            of: sample.isFlooded ? 'during a flood' : sample.hours < settledHours ? 'not checked' : 'checked',
          })),
      },
      // A label for each of some thousand points would be most of the file, and of no use to a screen reader.
      mark: { type: 'point' as const, filled: true, size: 14, aria: false },
      encoding: {
        x: { field: 'minutes', type: 'quantitative' as const, title: 'minutes' },
        y: { field: 'value', type: 'quantitative' as const, title: label, scale: { zero: true } },
        color: {
          field: 'of',
          type: 'nominal' as const,
          title: null,
          scale: {
            domain: ['checked', 'not checked', 'during a flood'],
            range: ['#2f6fb0', '#aaaaaa', '#d08a1d'],
          },
        },
      },
    })),
  });
}
