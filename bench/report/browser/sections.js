// @ts-nocheck -- runs in a browser after drawing.js; test/bench/report.test.ts runs it.
/* global results, byId, make, number, intervalText, table, picture, section, document */
const { floorMicroseconds: floorUs, machine, versions } = results;
const tool = [...byId.keys()].some((id) => id.startsWith('closed-loop/wrk/')) ? 'wrk' : 'autocannon';
const parametersOf = (prefix, name) => [
  ...new Set(
    results.figures.filter(({ id }) => id.startsWith(prefix)).map(({ parameters }) => parameters[name]),
  ),
];
const ascending = (list) => list.filter((value) => value !== undefined).sort((a, b) => a - b);
const depths = ascending(parametersOf('closed-loop/', 'depth'));
const usual = [32, ...ascending(parametersOf('closed-loop/', 'connections'))].find((count) =>
  depths.some((depth) => byId.has(`closed-loop/${tool}/warm/d${depth}/c${count}/throughput`)),
);
const median = (id) => byId.get(id)?.median ?? null;
const closed = (traffic, depth, count, what) => `closed-loop/${tool}/${traffic}/d${depth}/c${count}/${what}`;
const traffics = ['warm', 'mixed', 'cold'].filter((traffic) =>
  depths.some((d) => byId.has(closed(traffic, d, usual, 'cpu'))),
);
const usualDepth = depths.includes(4) ? 4 : depths[0];

document
  .getElementById('about')
  .append(
    `${results.startedAt.slice(0, 16).replace('T', ' ')} UTC · commit ${results.commit.slice(0, 9)}` +
      `${results.isDirty ? ' with changes' : ''} · ${results.mode} run of ${results.seconds} s · ${machine.processor}, ` +
      `${machine.cores} cores, ${machine.system}, Node ${versions.node}`,
  );
if (results.isVoid) {
  const [{ where, count, first }] = results.wrongVerdicts;
  document
    .getElementById('void')
    .append(
      make(
        'p',
        { class: 'void' },
        `This run is void: ${count} wrong answers in ${where}. The first: ${first}`,
      ),
    );
}

/** A figure with its interval. Times are shown as ratios to the floor, which also hold on other machines. */
const tile = (id, what) => {
  const figure = byId.get(id);
  if (figure === undefined) return null;
  const inFloors = figure.unit === 'µs' && figure.floors !== null;
  const unit = inFloors ? ' floors' : '';
  return make(
    'div',
    { class: 'tile' },
    make('b', {}, number(id, { inFloors }), unit),
    make('span', { class: 'faint' }, intervalText(id, inFloors)),
    make('div', {}, what),
  );
};
const barsCounted = () => {
  const bars = results.bars ?? [];
  if (bars.length === 0) return null;
  const count = (...verdicts) => bars.filter(({ verdict }) => verdicts.includes(verdict)).length;
  return make(
    'div',
    { class: 'tile' },
    make('b', {}, `${count('aim met', 'met')} of ${bars.length}`),
    make('span', { class: 'faint' }, `${count('not met')} not met, ${count('cannot tell')} cannot tell`),
    make('div', {}, 'bars met'),
  );
};
document
  .getElementById('tiles')
  .append(
    ...[
      tile('floor/verify', '1 floor: one signature by libsodium'),
      tile(closed('warm', usualDepth, usual, 'cpu'), `processor time, warm, depth ${usualDepth}`),
      tile(
        closed('cold', usualDepth, usual, 'cpu'),
        `cold, depth ${usualDepth}: ${usualDepth + 1} signatures`,
      ),
      tile(closed('warm', usualDepth, 1, 'p50'), 'p50 at 1 connection'),
      tile(
        closed('warm', usualDepth, usual, 'throughput'),
        `warm, depth ${usualDepth}, ${usual} connections`,
      ),
      tile('memory/resident', 'resident memory'),
      barsCounted(),
    ].filter((entry) => entry !== null),
  );

const SIGNS = { 'aim met': '●', met: '●', 'not met': '○', 'cannot tell': '?' };
if ((results.bars ?? []).length > 0) {
  const rows = results.bars.map(({ what, measured, interval, bar, aim, verdict }) => [
    what,
    make(
      'span',
      { class: { 'not met': 'bad', 'cannot tell': 'faint' }[verdict] ?? 'good' },
      SIGNS[verdict],
      ' ',
      verdict,
    ),
    ...[measured, interval, bar, aim].map((text) => text.replaceAll(' floors', '')),
  ]);
  const about = 'The limits that the project sets itself. Times are in floors of this run.';
  section('bars', 'Bars', about, table(['bar', '', 'measured', 'interval', 'bar', 'aim'], rows));
}

const pair = (...pictures) => make('div', { class: 'pair' }, ...pictures.filter((drawn) => drawn !== null));

if (depths.length > 0) {
  section(
    'depth',
    'What a verification costs at each depth',
    'A warm request costs one signature at any depth, a cold one a signature for each receipt and one for the call. ' +
      'The dashed lines are those signatures alone; what lies above them is the rest of the service.',
    pair(
      picture(
        'cpu',
        `Processor time of the service for each request, kernel included, at ${usual} connections.`,
      ),
      picture('throughput', `Throughput at ${usual} connections; the load generator shares the same cores.`),
    ),
    table(
      ['depth', ...traffics.flatMap((traffic) => [`${traffic} /s`, 'CPU', 'floors'])],
      depths.map((depth) => [
        String(depth),
        ...traffics.flatMap((traffic) => [
          number(closed(traffic, depth, usual, 'throughput')),
          number(closed(traffic, depth, usual, 'cpu')),
          number(closed(traffic, depth, usual, 'cpu'), { inFloors: true }),
        ]),
      ]),
    ),
  );
}

const counts = ascending(parametersOf(`closed-loop/${tool}/warm/`, 'connections'));
if (counts.length > 0) {
  const rows = counts.map((count) => [
    String(count),
    ...['throughput', 'cpu', 'p50', 'p90', 'p99', 'p99-uncorrected', 'p99.9'].map((what) =>
      number(closed('warm', usualDepth, count, what)),
    ),
  ]);
  section(
    'latency',
    'Latency',
    'In a closed loop a connection sends its next request when the last is answered, so with many connections a latency is mostly the wait for the others.',
    pair(picture('percentiles-1', 'Warm, 1 connection.'), picture('percentiles-32', 'Warm, 32 connections.')),
    make('h3', {}, `By connections, warm, depth ${usualDepth}`),
    table(['connections', 'throughput', 'CPU', 'p50', 'p90', 'p99', 'p99 of those sent', 'p99.9'], rows),
  );
}

for (const depth of ascending(parametersOf('open-loop/', 'depth'))) {
  const loads = ascending(parametersOf(`open-loop/warm/d${depth}/at`, 'load'));
  const at = (load, what) => `open-loop/warm/d${depth}/at${load}/${what}`;
  // The knee: the last load before p99 exceeds four times its value at the lowest load in every run. A single run of
  // each load cannot show it.
  const runsAt = (load) => byId.get(at(load, 'p99'))?.samples ?? [];
  const canTell = loads.every((load) => runsAt(load).length > 1);
  const calm = Math.max(...runsAt(loads[0]));
  const bent = canTell ? loads.findIndex((load) => Math.min(...runsAt(load)) > 4 * calm) : -1;
  const knee = bent > 0 ? loads[bent - 1] : null;
  section(
    `open-loop-${depth}`,
    `Under constant load, depth ${depth}`,
    'Requests leave at a constant rate and a latency counts from the intended send time, so a stall counts for all that should have been sent meanwhile. ' +
      (knee === null
        ? canTell
          ? 'There is no knee up to the highest load measured.'
          : 'One run of each load cannot tell where the knee is.'
        : `The knee: up to ${knee} % of the maximum, p99 stays within four times its lowest.`),
    picture(`open-loop-${depth}`, 'Warm traffic by the open-loop generator, which runs on the same cores.'),
    table(
      ['load', 'rate', 'p50', 'p99', 'p99.9', 'longest', 'sent late by (p50)'],
      loads.map((load) => [
        `${load} %`,
        ...['rate', 'p50', 'p99', 'p99.9', 'max', 'send-delay-p50'].map((what) => number(at(load, what))),
      ]),
    ),
  );
}
