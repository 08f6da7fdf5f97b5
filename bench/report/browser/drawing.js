// @ts-nocheck -- runs in a browser, where the types of this project do not hold; test/bench/report.test.ts runs it.
/* global uPlot, document, window, getComputedStyle, ResizeObserver, matchMedia */
const results = JSON.parse(document.getElementById('results').textContent);
const byId = new Map(results.figures.map((figure) => [figure.id, figure]));
const COLOURS = ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5', '--c6'];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** An element with text or elements in it. Nothing here is ever parsed as HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function short(value) {
  return value.toLocaleString(
    'en-GB',
    value >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 },
  );
}

/** As bench/report/format.ts writes it. */
function format(value, unit) {
  if (unit === 'bytes') {
    const size = Math.abs(value);
    if (size >= 1e6) return `${short(value / 1e6)} MB`;
    return size >= 1e4 ? `${short(value / 1e3)} kB` : `${short(value)} B`;
  }
  if (unit === 'count') return short(value);
  if (unit === 'ratio') return `${short(100 * value)} %`;
  return unit === '1/s' ? `${short(value)} /s` : `${short(value)} ${unit}`;
}

/** A figure's median; the id lets a reader (and a test) find it in results.json. */
function number(id, { inFloors = false } = {}) {
  const figure = byId.get(id);
  if (figure === undefined) return '–';
  const text = inFloors ? figure.floors.toFixed(2) : format(figure.median, figure.unit);
  const title = `${id}: median of ${figure.samples.length}, spread ${(100 * figure.spread).toFixed(0)} %`;
  return make('span', { 'data-figure': id, 'data-as': inFloors ? 'floors' : figure.unit, title }, text);
}

function table(head, rows) {
  const row = (tag, cells) => make('tr', {}, ...cells.map((cell) => make(tag, {}, cell)));
  const filled = rows.filter((cells) => cells.slice(1).some((cell) => cell !== '–'));
  if (filled.length === 0) return null;
  const body = make('tbody', {}, ...filled.map((cells) => row('td', cells)));
  return make(
    'div',
    { class: 'wide' },
    make(
      'table',
      { class: filled.some(([first]) => first.length > 24) ? 't wordy' : 't' },
      make('thead', {}, row('th', head)),
      body,
    ),
  );
}

/** More colours than there are: the second time round they are paler. */
function paint(at) {
  const colour = `var(${COLOURS[at % (COLOURS.length - 1)]})`;
  return at < COLOURS.length - 1 ? colour : `color-mix(in srgb, ${colour} 45%, var(--paper))`;
}

const redraws = [];

/**
 * A chart that redraws for its width, for dark and light and for paper.
 * series: { label, values (null for a gap), colour, dash, points }
 */
function chart({
  x,
  series,
  xLabel,
  yLabel,
  xTicks,
  yLog = false,
  yUnit,
  xFormat = short,
  marks = [],
  caption,
}) {
  const place = make('div', { class: 'chart' });
  const figure = make('figure', {}, place, make('figcaption', {}, caption));
  const all = series.flatMap(({ values }) => values.filter((value) => value !== null));
  let plot;
  const draw = () => {
    plot?.destroy();
    const [ink, line] = [css('--ink'), css('--line')];
    const font = '12px system-ui, sans-serif';
    const axis = {
      stroke: ink,
      grid: { stroke: line, width: 1 },
      ticks: { stroke: line },
      font,
      labelFont: font,
    };
    const low = Math.min(...all);
    const high = Math.max(...all);
    const width = place.clientWidth || 320;
    plot = new uPlot(
      {
        width,
        height: width < 420 ? 250 : 300,
        scales: {
          x: { time: false, range: () => pad(x[0], x.at(-1)) },
          y: yLog ? { distr: 3, range: () => [low / 1.3, high * 1.3] } : { range: () => [0, high * 1.08] },
        },
        axes: [
          {
            ...axis,
            label: xLabel,
            ...(xTicks ? { splits: () => xTicks } : {}),
            values: (_, splits) => splits.map((value) => (value === null ? '' : xFormat(value))),
          },
          {
            ...axis,
            label: yLabel,
            size: 62,
            ...(yLog ? { splits: () => logTicks(low / 1.3, high * 1.3), filter: (_, splits) => splits } : {}),
            values: (_, splits) => splits.map((value) => (value === null ? '' : short(value))),
          },
        ],
        cursor: { drag: { x: false, y: false } },
        series: [
          { label: xLabel, value: (_, value) => (value === null ? '–' : xFormat(value)) },
          ...series.map(({ label, colour, dash, points = true }, at) => ({
            label,
            stroke: css(colour ?? COLOURS[at % COLOURS.length]),
            width: 2,
            spanGaps: true,
            ...(dash ? { dash } : {}),
            points: { show: points, size: 6 },
            value: (_, value) => (value === null ? '–' : `${short(value)} ${yUnit}`),
          })),
        ],
        hooks: { draw: [(drawn) => marks.forEach((mark) => drawMark(drawn, mark, ink))] },
      },
      [x, ...series.map(({ values }) => values)],
      place,
    );
  };
  redraws.push(draw);
  new ResizeObserver(() => {
    if (plot !== undefined && Math.abs(plot.width - place.clientWidth) > 2) draw();
  }).observe(place);
  return figure;
}

function pad(low, high) {
  const space = (high - low || 1) * 0.03;
  return [low - space, high + space];
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    for (const step of [1, 2, 5]) {
      const value = step * 10 ** power;
      if (value >= low && value <= high) ticks.push(value);
    }
  }
  // Seven labels are what a phone has room for; powers of ten alone tell as much over many decades.
  const powers = ticks.filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6));
  return ticks.length > 9 && powers.length > 2 ? powers : ticks;
}

/** A vertical line at x with a word beside it. */
function drawMark(plot, { at, text }, ink) {
  const { ctx, bbox } = plot;
  const left = plot.valToPos(at, 'x', true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = ink;
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(left, bbox.top);
  ctx.lineTo(left, bbox.top + bbox.height);
  ctx.stroke();
  ctx.font = `${12 * window.devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = left > bbox.left + bbox.width / 2 ? 'right' : 'left';
  ctx.fillText(text, left + (ctx.textAlign === 'right' ? -6 : 6), bbox.top + 14 * window.devicePixelRatio);
  ctx.restore();
}

/** Horizontal bars, each of one or more parts: { label, parts: [{ value, colour, title }], text } */
function bars(rows, caption) {
  const widest = Math.max(...rows.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0)));
  const cells = rows.flatMap(({ label, parts, text }) => {
    const pieces = parts.map(({ value, colour, title }) =>
      // Room is left for the number behind the longest bar.
      make('i', { style: `width:${(72 * value) / widest}%;background:${colour}`, title: title ?? '' }),
    );
    return [
      make('div', { class: 'label' }, label),
      make('div', { class: 'bar' }, ...pieces, make('span', {}, text)),
    ];
  });
  return make('figure', {}, make('div', { class: 'bars' }, ...cells), make('figcaption', {}, caption));
}

function key(entries) {
  const items = entries.map(([label, colour]) =>
    make('span', {}, make('i', { style: `background:${colour}` }), label),
  );
  return make('div', { class: 'key' }, ...items);
}

const contents = document.getElementById('contents');
const main = document.getElementById('main');

/** Adds a section, unless there is nothing to show in it. */
function section(id, title, about, ...children) {
  const word = id.replaceAll('-', ' ');
  const shown = children.filter((child) => child !== null && child !== undefined);
  if (shown.length === 0) return;
  main.append(make('section', { id }, make('h2', {}, title), make('p', {}, about), ...shown));
  contents.append(make('a', { href: `#${id}` }, word));
}

function drawAll() {
  for (const draw of redraws) draw();
}

for (const query of ['(prefers-color-scheme: dark)', 'print'])
  matchMedia(query).addEventListener('change', drawAll);
window.addEventListener('beforeprint', drawAll);
window.addEventListener('afterprint', drawAll);
