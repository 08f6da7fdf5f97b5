import { finderOf, noisyIn, type Figures, type Results } from '../run/results.js';
import { checkBars } from './bars.js';
import { drawCost, drawKnee, drawLatency, drawOverload, drawParts } from './charts.js';
import { fitModel } from './model.js';
import { BAR_HEAD, cellsOf, formatInterval, formatValue } from './table.js';

/** The widths in px of the charts: as wide as the text, and for a phone. A style sheet shows one of them. */
const WIDE = 736;
const SLIM = 350;

const STYLE = `
body { box-sizing: border-box; margin: 0 auto; padding: 1rem; max-width: 48rem; color: #1b1f24; background: #fff; font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0 }
h2 { font-size: 1.2rem; margin: 2rem 0 0.6rem }
p { margin: 0.3rem 0 }
.faint, .tile i { color: #59636e; font-size: 0.9rem }
.void, .noisy { background: #b3261e; color: #fff; padding: 0.6rem 0.8rem; border-radius: 6px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 0.7rem }
.tile { border: 1px solid #d5dae0; border-radius: 6px; padding: 0.5rem 0.8rem }
.tile b { font-size: 1.5rem }
.tile i { display: block; font-style: normal }
figure { margin: 0.6rem 0 1rem; break-inside: avoid }
figure svg { display: block; width: 100%; height: auto }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums }
th, td { padding: 0.2rem 0.5rem 0.2rem 0; border-bottom: 1px solid #d5dae0; text-align: left }
@media (max-width: 34rem) {
  .wide, thead { display: none }
  table, tbody, tr, td { display: block }
  td { border: 0; padding: 0 }
  td:first-child { font-weight: 600; padding-top: 0.4rem }
  td + td::before { content: attr(data-label) ' '; color: #59636e }
}
@media (min-width: 34.01rem) { .slim { display: none } }
`;

const escape = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const p = (text: string, kind = '') => `<p${kind === '' ? '' : ` class="${kind}"`}>${escape(text)}</p>`;

function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  // On a phone, each row is a card, and each cell shows the name of its column.
  const cells = (row: readonly string[]) =>
    row.map((cell, at) => `<td data-label="${escape(head[at] ?? '')}">${escape(cell)}</td>`).join('');
  const body = rows.map((row) => `<tr>${cells(row)}</tr>`).join('\n');
  const top = head.map((cell) => `<th>${escape(cell)}</th>`).join('');
  return `<table><thead><tr>${top}</tr></thead><tbody>${body}</tbody></table>`;
}

async function chart(
  name: string,
  results: Results,
  draw: (results: Figures, width: number) => Promise<string | null>,
): Promise<string> {
  const [wide, slim] = [await draw(results, WIDE), await draw(results, SLIM)];
  return wide === null || slim === null
    ? ''
    : `<figure data-chart="${name}"><div class="wide">${wide}</div><div class="slim">${slim}</div></figure>`;
}

/** Shows a figure's median and interval. The id lets a reader (and a test) find it in results.json. */
function tilesOf(results: Results, wanted: Readonly<Record<string, string>>): string {
  const find = finderOf(results);
  const tiles = Object.entries(wanted).flatMap(([id, what]) => {
    const figure = find(id);
    if (figure === undefined) return [];
    // Rates have floors, too, but say nothing to a reader in them.
    const inFloors = figure.unit === 'µs' ? figure.floors : null;
    const { median, low, high } = inFloors ?? figure;
    const show = (value: number) => (inFloors ? value.toFixed(2) : formatValue(value, figure.unit));
    const value = `<b data-figure="${id}" data-as="${inFloors ? 'floors' : figure.unit}">${show(median)}</b>`;
    const micros = inFloors ? `, ${formatValue(figure.median, 'µs')}` : '';
    const interval = figure.runs > 1 ? `${show(low)} … ${show(high)}` : 'one run, no interval';
    return [
      `<div class="tile">${value}${inFloors ? ' floors' : ''}<i>${interval}${micros}</i>${escape(what)}</div>`,
    ];
  });
  return tiles.length === 0 ? '' : `<div class="tiles">${tiles.join('\n')}</div>`;
}

const TILES = {
  'throughput/warm/d4/c32/cpu': 'warm, depth 4: one signature, the receipts are known',
  'throughput/cold/d4/c32/cpu': 'cold, depth 4: five signatures',
  'throughput/library/warm/d4/cpu': 'the library alone, warm, depth 4',
  'gate/added/d4/cpu': 'more at /gate/mcp than at /verify',
  'throughput/warm/d4/c1/p50': 'p50 at one connection, warm, depth 4',
  'throughput/warm/d4/c32/throughput': 'warm, depth 4, 32 connections',
};

function modelText(results: Results): string {
  const model = fitModel(results);
  if (model === null) return '';
  const inFloors = (model.perSignature / results.floorMicroseconds).toFixed(2);
  return p(
    `Processor time of a request = ${model.fixed.toFixed(0)} µs + ${model.perSignature.toFixed(0)} µs (${inFloors} floors) ` +
      `for each signature + ${model.perKilobyte.toFixed(1)} µs for each kB of body. ` +
      `The largest error of this is ${(100 * model.worstError).toFixed(0)} %.`,
  );
}

/** Renders the report as one self-contained page, which needs no network and no script. */
export async function renderReport(results: Results): Promise<string> {
  const { commit, command, machine, startedAt, seconds, skipped, notes, interference } = results;
  const floor = results.floorMicroseconds;
  const draw = (name: string, chartOf: typeof drawCost) => chart(name, results, chartOf);
  const table = (suite: string, ...quantities: readonly string[]) => figureTable(results, suite, quantities);
  const bars = results.mode === 'full' ? checkBars(results).map(cellsOf) : [];
  const sections: readonly (readonly [id: string, title: string, ...content: readonly string[]])[] = [
    ['cost', 'What does one verification cost?', tilesOf(results, TILES)],
    [
      ...(['depth', 'How does it grow with depth?'] as const),
      ...[await draw('cost', drawCost), modelText(results), await draw('latency', drawLatency)],
    ],
    ['parts', 'Where does the time go?', await draw('parts', drawParts)],
    ['knee', 'Where is the knee?', await draw('knee', drawKnee), await draw('overload', drawOverload)],
    [
      ...(['peers', 'Against what?', table('peers', 'cpu', 'throughput', 'p99')] as const),
      ...notes.filter((note) => note.startsWith('peers: ')).map((note) => p(note.replace('peers: ', ''))),
    ],
    ['engines', 'Is there a faster Ed25519?', table('engines', 'cpu', 'accepted-wrongly', 'refused-wrongly')],
    ['skipped', 'Not measured', ...skipped.map(({ what, reason }) => p(`${what}: ${reason}`))],
    // One run of each figure gives no verdict.
    ['bars', 'Bars', bars.length > 0 ? tableOf(BAR_HEAD, bars) : ''],
  ];
  const shown = sections.filter(([, , ...content]) => content.some((part) => part !== ''));
  const noisy = noisyIn(results).length;
  const about = [
    `${startedAt.slice(0, 16).replace('T', ' ')} UTC, commit ${commit.slice(0, 9)}${results.isDirty ? ' with changes' : ''}`,
    `${command}, ${seconds} s, ${machine['processor']}, ${machine['cores']} cores, Node ${machine['node']}`,
    `1 floor = ${floor.toFixed(1)} µs: one Ed25519 verification by libsodium. Ratios to it hold on other machines, µs do not.`,
  ];
  const [wrong] = results.wrongVerdicts;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<link rel="icon" href="data:," />
<title>drs-verify: what a verification costs</title>
<style>${STYLE}</style>
</head>
<body>
<h1>What a verification costs</h1>
${about.map((line) => p(line, 'faint')).join('\n')}
${wrong === undefined ? '' : p(`This run is void: ${wrong.count} wrong answers in ${wrong.where}. The first: ${wrong.first}`, 'void')}
${noisy === 0 ? '' : p(`Noisy: others had more than a tenth of the cores in ${noisy} of ${interference.length} measurements.`, 'noisy')}
${shown.map(([id, title, ...content]) => `<section id="${id}"><h2>${title}</h2>\n${content.join('\n')}</section>`).join('\n')}
<p class="faint">Compare commits with npm run bench:compare; never two reports.</p>
</body>
</html>
`;
}

function figureTable(results: Results, suite: string, quantities: readonly string[]): string {
  const find = finderOf(results);
  const ids = results.figures
    .filter(({ id }) => id.startsWith(`${suite}/`) && quantities.includes(id.split('/').at(-1) ?? ''))
    .map(({ id }) => id.slice(0, id.lastIndexOf('/')));
  const rows = [...new Set(ids)].map((id) => [
    id.slice(suite.length + 1),
    ...quantities.map((quantity) => {
      const figure = find(`${id}/${quantity}`);
      if (figure === undefined) return '–';
      const interval = figure.low === figure.high ? '' : ` (${formatInterval(figure)})`;
      return `${formatValue(figure.median, figure.unit)}${interval}`;
    }),
  ]);
  return rows.length === 0 ? '' : tableOf(['', ...quantities], rows);
}
