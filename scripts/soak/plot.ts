import type { Sample } from './sample.js';

const PANELS = [
  ['rss', 'RSS, MB'],
  ['descriptors', 'open descriptors'],
  ['handles', 'handles'],
  ['p99', 'p99, ms'],
  ['processorShare', 'busy share of its cores'],
  ['rate', 'answers a second'],
] as const;
const COLOURS = { checked: '#2f6fb0', 'not checked': '#aaaaaa', 'during a flood': '#d08a1d' };
const [WIDTH, HEIGHT, LEFT, GAP, TOP] = [600, 110, 60, 34, 60];

const text = (x: number, y: number, content: string, anchor = 'start') =>
  `<text x="${x}" y="${y}" text-anchor="${anchor}">${content}</text>`;
const shown = (value: number) => (value < 10 ? value.toFixed(2) : value.toFixed(0));

/** Draws the samples of a run, with the panels below each other, each from 0. @returns an SVG */
export function plot(samples: readonly Sample[], title: string, settledHours: number): string {
  const hours = Math.max(...samples.map((sample) => sample.hours));
  const colourOf = ({ isFlooded, hours: at }: Sample) =>
    COLOURS[isFlooded ? 'during a flood' : at < settledHours ? 'not checked' : 'checked'];
  const panels = PANELS.map(([name, label], row) => {
    const points = samples.filter((sample) => Number.isFinite(sample[name]));
    const max = Math.max(0, ...points.map((sample) => sample[name])) || 1;
    const top = TOP + row * (HEIGHT + GAP);
    return [
      `<rect x="${LEFT}" y="${top}" width="${WIDTH}" height="${HEIGHT}" fill="none" stroke="#cccccc"/>`,
      text(LEFT, top - 5, label),
      text(LEFT - 5, top + 10, shown(max), 'end'),
      text(LEFT - 5, top + HEIGHT, '0', 'end'),
      ...points.map((sample) => {
        const x = LEFT + (sample.hours / hours) * WIDTH;
        const y = top + HEIGHT - (sample[name] / max) * HEIGHT;
        return `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="2" fill="${colourOf(sample)}"/>`;
      }),
    ].join('\n');
  });
  const bottom = TOP + PANELS.length * (HEIGHT + GAP) - GAP;
  const legend = Object.entries(COLOURS).map(
    ([name, colour], at) => `<g fill="${colour}">${text(LEFT + at * 110, 36, `● ${name}`)}</g>`,
  );
  const minutes = `${(60 * hours).toFixed(0)} minutes`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${LEFT + WIDTH + 20}" height="${bottom + 30}" font-family="system-ui, sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
${text(LEFT, 16, title)}
${legend.join('\n')}
${panels.join('\n')}
${text(LEFT + WIDTH, bottom + 15, minutes, 'end')}
</svg>
`;
}
