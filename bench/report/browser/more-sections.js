// @ts-nocheck -- runs in a browser after sections.js, whose constants it uses; test/bench/report.test.ts runs it.
/* global results, byId, make, short, number, differ, table, picture, pair, section, parametersOf, ascending, floorUs, versions */
const stageNames = parametersOf('stages/', 'stage').filter((stage) => stage !== undefined);
if (stageNames.length > 0) {
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
    'Each stage alone, on one thread, in process. The bars leave out the signatures themselves, since nothing else would be visible beside them. They are in the tables.',
    pair(
      picture('stages-warm', 'Warm: all but the signature.'),
      picture('stages-cold', 'Cold: all but the signatures.'),
    ),
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
  const servers = peerNames.filter((peer) => byId.has(`peers/${peer}/d${peerDepths[0]}/throughput`));
  const sameKind = peerNames.filter((peer) => byId.has(`peers/${peer}/d${peerDepths[0]}/time`));
  section(
    'peers',
    'Compared with what you could write or choose instead',
    'The same warm bundles, checked to get the same verdicts. ' +
      (results.notes.find((note) => note.startsWith('peers: ')) ?? '').replace('peers: ', ''),
    pair(
      ...peerDepths.map((depth) =>
        picture(`peers-${depth}`, `Processor time for each request, depth ${depth}; shorter is better.`),
      ),
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
      ['in process, processor time', ...peerDepths.map((depth) => `depth ${depth}`)],
      [
        [
          'drs-verify, all receipts new',
          ...peerDepths.map((depth) => number(`in-process/in-thread/cold/d${depth}/cpu`)),
        ],
        ...sameKind.map((peer) => [
          peer,
          ...peerDepths.map((depth) => number(`peers/${peer}/d${depth}/cpu`)),
        ]),
      ],
    ),
  );
}

/** A plain table of all figures of a suite whose name has this ending. */
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
  ['memory/receipt-cache', 'receipt cache, as it counts itself'],
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
  byId.has('scrape/scraped/p99') &&
    !['throughput', 'p50', 'p99'].some((what) => differ(`scrape/scraped/${what}`, `scrape/unscraped/${what}`))
    ? make('p', {}, 'With and without being scraped: the intervals overlap, so no difference was found.')
    : null,
);
section(
  'processes',
  'Threads or processes',
  'One process with workers (p1-w1) and several without (p2-w0), each on a port of its own.',
  plain('processes', 'traffic / layout', ['throughput', 'cpu', 'p50', 'p99', 'resident']),
);
section(
  'engines',
  'Every Ed25519 implementation on this platform',
  'Processor time of one verification, and results for published vectors.',
  plain('engines', 'engine', ['cpu', 'accepted-wrongly', 'refused-wrongly']),
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
    'What an attacker sends: a wrong signature on a known chain; an invocation that is not a JWT.',
  depth: 'The number of delegation receipts in the chain, without the invocation.',
  'processor time (CPU)':
    'User and system time that the operating system accounts to the service process, per request. The load generator does not count.',
  'closed loop, open loop':
    'Closed: the next request waits for the last answer. Open: each request is sent at its time, whether or not earlier ones were answered.',
  p99: 'Ninety-nine of a hundred requests took at most this long.',
  'p99 of those sent':
    'wrk counts a stall for every request that would have been sent meanwhile, too; this counts only what was sent.',
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
