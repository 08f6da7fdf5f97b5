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
  const rows = results.bars.map(({ what, measured, bar, aim, verdict }) => [
    what,
    make('span', { class: verdict === 'NOT MET' ? 'bad' : 'good' }, verdict),
    ...[measured, bar, aim].map((text) => text.replace(' floors', '')),
  ]);
  const about = 'What the project promises itself. Times are in floors of this very run.';
  section('bars', 'Bars', about, table(['bar', '', 'measured', 'bar', 'aim'], rows));
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
    ...['throughput', 'cpu', 'p50', 'p90', 'p99', 'p99.9'].map((what) =>
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
    table(['connections', 'throughput', 'CPU', 'p50', 'p90', 'p99', 'p99.9'], rows),
  );
}

for (const depth of ascending(parametersOf('open-loop/', 'depth'))) {
  const loads = ascending(parametersOf(`open-loop/warm/d${depth}/at`, 'load'));
  const at = (load, what) => `open-loop/warm/d${depth}/at${load}/${what}`;
  const calm = median(at(loads[0], 'p99'));
  // The knee: the last load before p99 leaves four times what it is at the lowest.
  const bent = loads.findIndex((load) => median(at(load, 'p99')) > 4 * calm);
  const knee = bent > 0 ? loads[bent - 1] : null;
  section(
    `open-loop-${depth}`,
    `Under constant load, depth ${depth}`,
    'Requests leave at a constant rate and a latency counts from the intended send time, so a stall counts for all that should have been sent meanwhile. ' +
      (knee === null
        ? 'There is no knee up to the highest load measured.'
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

const stageNames = parametersOf('stages/', 'stage').filter((stage) => stage !== undefined);
if (stageNames.length > 0) {
  const order = stageNames.filter((stage) => stage !== 'signatures');
  const colourOf = new Map(order.map((stage, at) => [stage, paint(at)]));
  const rowsFor = (traffic, names) =>
    ascending(parametersOf(`stages/${traffic}/`, 'depth')).map((depth) => {
      const parts = names.map((stage) => ({
        value: median(`stages/${traffic}/d${depth}/${stage}/time`) ?? 0,
        ...{ colour: colourOf.get(stage), stage },
      }));
      const total = parts.reduce((sum, { value }) => sum + value, 0);
      return {
        ...{ label: `${traffic}, depth ${depth}`, text: `${short(total)} µs` },
        parts: parts.map((part) => ({ ...part, title: `${part.stage}: ${short(part.value)} µs` })),
      };
    });
  const stageTable = (traffic) => {
    const list = ascending(parametersOf(`stages/${traffic}/`, 'depth'));
    const row = (stage) => [
      stage,
      ...list.map((depth) => number(`stages/${traffic}/d${depth}/${stage}/time`)),
      number(`stages/${traffic}/d${list.at(-1)}/${stage}/bytes`),
    ];
    return table(
      [traffic, ...list.map((depth) => `depth ${depth}`), `bytes, depth ${list.at(-1)}`],
      stageNames.map(row),
    );
  };
  section(
    'stages',
    'Where the time goes',
    'Each stage alone, on one thread, in process. The bars leave out the signatures themselves, which are in the tables: beside them nothing else could be seen.',
    key(order.map((stage) => [stage, colourOf.get(stage)])),
    bars(rowsFor('warm', order), 'Warm: all but the signature.'),
    bars(rowsFor('cold', order), 'Cold: all but the signatures.'),
    make('div', { class: 'pair' }, ...['warm', 'cold'].map(stageTable)),
  );
}

const inProcessDepths = ascending(parametersOf('in-process/', 'depth'));
section(
  'in-process',
  'In process',
  'createVerifier without a network: time for each verdict. The pool is kept busy with 32 verdicts at once.',
  table(
    [
      'depth',
      ...['warm', 'mixed', 'cold'].flatMap((traffic) => [
        `${traffic}, in-thread`,
        'floors',
        `${traffic}, pool`,
      ]),
      'bytes, warm',
    ],
    inProcessDepths.map((depth) => [
      String(depth),
      ...['warm', 'mixed', 'cold'].flatMap((traffic) => [
        number(`in-process/in-thread/${traffic}/d${depth}/time`),
        number(`in-process/in-thread/${traffic}/d${depth}/time`, { inFloors: true }),
        number(`in-process/pool/${traffic}/d${depth}/time`),
      ]),
      number(`in-process/in-thread/warm/d${depth}/bytes`),
    ]),
  ),
);

const peerNames = parametersOf('peers/', 'peer').filter((peer) => peer !== undefined);
if (peerNames.length > 0) {
  const peerDepths = ascending(parametersOf('peers/', 'depth'));
  const servers = peerNames.filter((peer) => byId.has(`peers/${peer}/d${peerDepths[0]}/cpu`));
  const sameKind = peerNames.filter((peer) => byId.has(`peers/${peer}/d${peerDepths[0]}/time`));
  const rows = (depth) =>
    servers.map((peer) => {
      const value = median(`peers/${peer}/d${depth}/cpu`) ?? 0;
      const colour = `var(${peer === 'drs-verify' ? '--c0' : '--c6'})`;
      return { label: peer, text: number(`peers/${peer}/d${depth}/cpu`), parts: [{ value, colour }] };
    });
  section(
    'peers',
    'Beside what one would write or pick instead',
    'The same warm bundles, checked to get the same verdicts. ' +
      (results.notes.find((note) => note.startsWith('peers: ')) ?? '').replace('peers: ', ''),
    ...peerDepths.map((depth) =>
      bars(rows(depth), `Processor time for each request, depth ${depth}; shorter is better.`),
    ),
    table(
      ['server', ...peerDepths.flatMap((depth) => [`depth ${depth}`, 'CPU', 'p99'])],
      servers.map((peer) => [
        peer,
        ...peerDepths.flatMap((depth) =>
          ['throughput', 'cpu', 'p99'].map((what) => number(`peers/${peer}/d${depth}/${what}`)),
        ),
      ]),
    ),
    table(
      ['in process', ...peerDepths.map((depth) => `depth ${depth}`)],
      [
        [
          'drs-verify, all receipts new',
          ...peerDepths.map((depth) => number(`in-process/in-thread/cold/d${depth}/time`)),
        ],
        ...sameKind.map((peer) => [
          peer,
          ...peerDepths.map((depth) => number(`peers/${peer}/d${depth}/time`)),
        ]),
      ],
    ),
  );
}

/** Every figure of a suite whose name ends so, as a plain table. */
const plain = (prefix, head, names) =>
  table(
    [head, ...names],
    [
      ...new Set(
        results.figures
          .filter(({ id }) => id.startsWith(`${prefix}/`))
          .map(({ id }) => id.slice(0, id.lastIndexOf('/'))),
      ),
    ].map((id) => [id.slice(prefix.length + 1) || prefix, ...names.map((name) => number(`${id}/${name}`))]),
  );

section(
  'scaling',
  'Signature threads',
  'WORKER_THREADS 0, 1 and 2 (w0, w1, w2). The last rows are a lone cold chain of 16: more workers shorten its wait.',
  plain('scaling', 'traffic / depth / connections / workers', [
    'throughput',
    'cpu',
    'main-thread-cpu',
    'p50',
    'p99',
  ]),
);
section(
  'handover',
  'Signature hand-over',
  'Designs for bringing signatures to libsodium, one worker, so many signatures under way at once.',
  plain('handover', 'design', ['throughput', 'cpu', 'p50', 'p99']),
);
const rest = [
  ['memory/resident', 'resident memory at the end'],
  ['memory/resident-highest', 'highest resident memory'],
  ['memory/resident-growth-in-second-half', 'growth of resident memory in the second half'],
  ['memory/heap', 'JavaScript heap in use'],
  ['memory/receipt-cache', 'receipt cache, by its own account'],
];
const verdicts = byId.get('memory/resident')?.parameters.verdicts;
section(
  'memory',
  'Memory and revocation',
  verdicts === undefined
    ? ''
    : `Memory after ${short(verdicts)} distinct invocations under 1,000 chains of 4.`,
  table(
    ['memory', ''],
    rest.map(([id, what]) => [what, number(id)]),
  ),
  plain('cache', 'receipt cache of', ['hit-ratio', 'bytes']),
  plain('revocation', 'look-up', ['time', 'bytes-per-entry']),
  plain('scrape', 'metrics', ['throughput', 'p50', 'p99', 'p99.9']),
);
section(
  'overhead',
  'What the suite itself costs',
  'The load generator against a route that only reads the body and answers. Nothing can be measured to be faster than this.',
  plain('overhead', 'generator', ['throughput', 'cpu', 'generator-cpu', 'p50', 'p99', 'send-delay-p50']),
);

const skippedRows = results.skipped.map(({ what, reason }) => [what, reason]);
section('skipped', 'Not measured', 'What was left out, and why.', table(['what', 'why'], skippedRows));

const glossary = {
  floor: `One Ed25519 verification by libsodium of a 900-byte message on one core: ${floorUs.toFixed(1)} µs here. A ratio to it holds on any machine; µs do not.`,
  warm: 'Every receipt of the chain was seen before and is in the receipt cache. Only the invocation is new: one signature.',
  cold: 'No receipt of the chain was seen before: d + 1 signatures at depth d.',
  mixed: 'Nine warm requests, then a cold one.',
  'forged, malformed':
    'What an attacker sends: a wrong signature on a known chain; an invocation that is no JWT.',
  depth: 'The number of delegation receipts in the chain, without the invocation.',
  'processor time (CPU)':
    'User and system time that the operating system accounts to the service process, per request. The load generator does not count.',
  'closed loop, open loop':
    'Closed: the next request waits for the last answer. Open: requests leave at their time, answered or not.',
  p99: 'Ninety-nine of a hundred requests took at most this long.',
  'median, spread':
    'Each figure is measured in several runs, spread over the whole time; the median counts. Spread is (highest − lowest) / median. Point at a number to see both.',
};
const list = make(
  'dl',
  {},
  ...Object.entries(glossary).flatMap(([term, text]) => [make('dt', {}, term), make('dd', {}, text)]),
);
section('glossary', 'Glossary', 'What the words mean here.', list);
const versionText = Object.entries(versions)
  .map(([name, version]) => `${name} ${version}`)
  .join(' · ');
section(
  'reproduce',
  'How to reproduce',
  'In a clone at this commit, on a machine that does nothing else:',
  make(
    'pre',
    {},
    `git checkout ${results.commit.slice(0, 9)}\n${results.command}\n\n# is another commit faster?\nnpm run bench:compare -- --commits ${results.commit.slice(0, 9)} <other>`,
  ),
  make('p', { class: 'faint' }, versionText),
);
drawAll();
