// @ts-nocheck -- runs in a browser, without the types of this project; test/bench/report.test.ts runs it.
/* global document */
const results = JSON.parse(document.getElementById('results').textContent);
const byId = new Map(results.figures.map((figure) => [figure.id, figure]));

/** Makes an element with text or elements in it. No text is ever parsed as HTML. */
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

/** Formats a number like bench/report/format.ts. */
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

/** The interval of a figure's median, in words. */
function intervalText(id, inFloors) {
  const figure = byId.get(id);
  if (figure.samples.length < 2) return 'one run, no interval';
  const [low, high] = results.intervals[id][inFloors ? 'floors' : 'value'];
  const show = (value) => (inFloors ? value.toFixed(2) : format(value, figure.unit));
  return `${show(low)} … ${show(high)}`;
}

/** Whether two figures clearly differ: their intervals do not overlap. */
function differ(one, other) {
  if (![one, other].every((id) => (byId.get(id)?.samples.length ?? 0) > 1)) return false;
  const [[lowA, highA], [lowB, highB]] = [one, other].map((id) => results.intervals[id].value);
  return highA < lowB || highB < lowA;
}

/** Shows a figure's median. The id lets a reader (and a test) find it in results.json. */
function number(id, { inFloors = false } = {}) {
  const figure = byId.get(id);
  if (figure === undefined) return '–';
  const text = inFloors ? figure.floors.toFixed(2) : format(figure.median, figure.unit);
  const title = `${id}: median of ${figure.samples.length}, ${intervalText(id, inFloors)}`;
  return make('span', { 'data-figure': id, 'data-as': inFloors ? 'floors' : figure.unit, title }, text);
}

function table(head, rows) {
  // On a phone, each row is a card, and each cell shows the name of its column.
  const row = (tag, cells) =>
    make(
      'tr',
      {},
      ...cells.map((cell, at) => make(tag, tag === 'td' ? { 'data-label': head[at] } : {}, cell)),
    );
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

/** A chart that was drawn when the report was made, with its caption. */
function picture(name, caption) {
  const drawn = document.querySelector(`#charts [data-chart="${name}"]`);
  return drawn === null ? null : make('figure', {}, drawn, make('figcaption', {}, caption));
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
