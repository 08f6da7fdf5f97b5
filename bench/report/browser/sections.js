// @ts-nocheck -- runs in a browser behind drawing.js; test/bench/report.test.ts runs it.
/* global results, byId, make, short, number, table, chart, bars, key, section, drawAll, paint, document */
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

const tile = (value, what) =>
  value === '–' ? '' : make('div', { class: 'tile' }, make('b', {}, value), what);
document
  .getElementById('tiles')
  .append(
    ...[
      tile(number('floor/verify'), '1 floor: one signature by libsodium'),
      tile(number('floor/all-cores'), 'a signature while all cores verify'),
      tile(
        number(closed('warm', usualDepth, usual, 'throughput')),
        `warm, depth ${usualDepth}, ${usual} connections`,
      ),
      tile(
        number(closed('warm', usualDepth, usual, 'cpu')),
        `processor time of a warm request, depth ${usualDepth}`,
      ),
      tile(number(closed('cold', usualDepth, usual, 'cpu')), `of a cold one: ${usualDepth + 1} signatures`),
      tile(number(closed('warm', usualDepth, 1, 'p50')), 'p50 at 1 connection'),
      tile(number('memory/resident'), 'resident memory'),
    ].filter((entry) => entry !== ''),
  );

if ((results.bars ?? []).length > 0) {
  const rows = results.bars.map(({ what, measured, interval, bar, aim, verdict }) => [
    what,
    make('span', { class: { 'not met': 'bad', 'cannot tell': 'faint' }[verdict] ?? 'good' }, verdict),
    ...[measured, interval, bar, aim].map((text) => text.replaceAll(' floors', '')),
  ]);
  const about = 'What the project promises itself. Times are in floors of this very run.';
  section('bars', 'Bars', about, table(['bar', '', 'measured', 'interval', 'bar', 'aim'], rows));
}

if (depths.length > 0) {
  const line = (traffic, what) => ({
    label: traffic,
    values: depths.map((depth) => median(closed(traffic, depth, usual, what))),
    colour: { warm: '--c0', mixed: '--c2', cold: '--c1' }[traffic],
  });
  const floorLine = (label, signatures, colour) => ({
    ...{ label, colour, dash: [5, 4], points: false },
    values: depths.map((depth) => signatures(depth) * floorUs),
  });
  section(
    'depth',
    'What a verification costs at each depth',
    'A warm request costs one signature at any depth, a cold one a signature for each receipt and one for the call. ' +
      'The dashed lines are those signatures alone; what lies above them is the rest of the service.',
    make(
      'div',
      { class: 'pair' },
      chart({
        ...{
          x: depths,
          xTicks: depths,
          xLabel: 'receipts in the chain',
          yLabel: 'µs of processor time',
          yUnit: 'µs',
        },
        series: [
          ...traffics.map((traffic) => line(traffic, 'cpu')),
          floorLine('floor, warm', () => 1, '--c0'),
          floorLine('floor, cold', (depth) => depth + 1, '--c1'),
        ],
        caption: `Processor time of the service for each request, kernel included, at ${usual} connections.`,
      }),
      chart({
        ...{
          x: depths,
          xTicks: depths,
          xLabel: 'receipts in the chain',
          yLabel: 'requests / s',
          yUnit: '/s',
        },
        series: traffics.map((traffic) => line(traffic, 'throughput')),
        caption: `Throughput at ${usual} connections; the load generator shares the same cores.`,
      }),
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

const distributions = new Map(results.distributions.map((entry) => [entry.id, entry]));
const onLogAxis = (percentile) => -Math.log10(1 - percentile / 100);
const percentileOf = (position) => `${Number((100 * (1 - 10 ** -position)).toPrecision(8))} %`;

function latencyChart(count) {
  const chosen = depths.filter((depth) => distributions.has(`closed-loop/${tool}/warm/d${depth}/c${count}`));
  if (chosen.length === 0) return null;
  const curves = chosen.map((depth) => distributions.get(`closed-loop/${tool}/warm/d${depth}/c${count}`));
  const percentiles = [...new Set(curves.flatMap(({ curve }) => curve.map(([at]) => at)))];
  const inside = percentiles.filter((at) => at < 100).sort((a, b) => a - b);
  return chart({
    x: inside.map(onLogAxis),
    ...{
      xTicks: [0, onLogAxis(90), 2, 3, 4].filter((at) => at <= onLogAxis(inside.at(-1))),
      xFormat: percentileOf,
    },
    ...{ xLabel: 'percentile', yLabel: 'µs', yUnit: 'µs', yLog: true },
    series: curves.map(({ curve }, at) => ({
      ...{ label: `depth ${chosen[at]}`, points: false },
      values: inside.map((percentile) => curve.find(([point]) => point === percentile)?.[1] ?? null),
    })),
    caption: `Warm, ${count} connection${count === 1 ? '' : 's'}. Each step to the right is ten times rarer.`,
  });
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
    make(
      'div',
      { class: 'pair' },
      ...[...new Set([1, usual])].map(latencyChart).filter((entry) => entry !== null),
    ),
    make('h3', {}, `By connections, warm, depth ${usualDepth}`),
    table(['connections', 'throughput', 'CPU', 'p50', 'p90', 'p99', 'p99 of those sent', 'p99.9'], rows),
  );
}

for (const depth of ascending(parametersOf('open-loop/', 'depth'))) {
  const loads = ascending(parametersOf(`open-loop/warm/d${depth}/at`, 'load'));
  const at = (load, what) => `open-loop/warm/d${depth}/at${load}/${what}`;
  // The knee: the last load before p99 leaves four times what it is at the lowest, in every run. One run has no knee.
  const runsAt = (load) => byId.get(at(load, 'p99'))?.samples ?? [];
  const isJudged = loads.every((load) => runsAt(load).length > 1);
  const calm = Math.max(...runsAt(loads[0]));
  const bent = isJudged ? loads.findIndex((load) => Math.min(...runsAt(load)) > 4 * calm) : -1;
  const knee = bent > 0 ? loads[bent - 1] : null;
  section(
    `open-loop-${depth}`,
    `Under constant load, depth ${depth}`,
    'Requests leave at a constant rate and a latency counts from the intended send time, so a stall counts for all that should have been sent meanwhile. ' +
      (knee === null
        ? isJudged
          ? 'There is no knee up to the highest load measured.'
          : 'One run of each load cannot tell where the knee is.'
        : `The knee: up to ${knee} % of the maximum, p99 stays within four times its lowest.`),
    chart({
      ...{ x: loads, xTicks: loads, xFormat: (load) => `${load} %`, xLabel: 'of the closed-loop maximum' },
      ...{ yLabel: 'µs', yUnit: 'µs', yLog: true, marks: knee === null ? [] : [{ at: knee, text: 'knee' }] },
      series: ['p50', 'p90', 'p99', 'p99.9'].map((what) => ({
        label: what,
        values: loads.map((load) => median(at(load, what))),
      })),
      caption: 'Warm traffic by the open-loop generator, which runs on the same cores.',
    }),
    table(
      ['load', 'rate', 'p50', 'p99', 'p99.9', 'longest', 'sent late by (p50)'],
      loads.map((load) => [
        `${load} %`,
        ...['rate', 'p50', 'p99', 'p99.9', 'max', 'send-delay-p50'].map((what) => number(at(load, what))),
      ]),
    ),
  );
}
