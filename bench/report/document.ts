import { fitModel } from './cost-model.js';
import { NOISY } from '../compare/outcome.js';
import { intervalOf } from '../measure/interval.js';
import { checkBars } from './bars.js';
import { formatValue } from './format.js';
import { figureOf, type Results } from '../run/results.js';

/**
 * Fills the measured parts of docs/performance.md from a results.json. Each part is between two comments.
 *
 * @param longer results of longer runs of single suites; their bars replace those of the full run
 */
export function fillDocument(text: string, results: Results, longer: readonly Results[] = []): string {
  const parts: Readonly<Record<string, string>> = {
    run: describeRun(results),
    // Take the last result that has this part.
    latency: [results, ...longer].map(describeLatency).findLast((text) => text !== '') ?? '',
    overload: [results, ...longer].map(describeOverload).findLast((text) => text !== '') ?? '',
    bars: describeBars([results, ...longer]),
    model: describeModel(results),
    engines: [results, ...longer].map(describeEngines).findLast((text) => text !== '') ?? '',
    processes: [results, ...longer].map(describeProcesses).findLast((text) => text !== '') ?? '',
    handover: describeSuite(results, 'handover', ['throughput', 'cpu', 'p50', 'p99']),
    stages: describeStages(results),
    peers: describePeers(results),
  };
  return Object.entries(parts).reduce((filled, [name, part]) => {
    const place = new RegExp(`(<!-- measured: ${name} -->\\n)[^]*?(<!-- end -->)`);
    if (!place.test(filled)) throw new Error(`docs/performance.md has no place "<!-- measured: ${name} -->"`);
    return part === ''
      ? filled
      : filled.replace(place, (_, begin: string, end: string) => `${begin}\n${part}\n\n${end}`);
  }, text);
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  rows.length === 0
    ? ''
    : [head, head.map((_, at) => (at === 0 ? '---' : '--:')), ...rows]
        .map((row) => `| ${row.join(' | ')} |`)
        .join('\n');

function describeRun({
  machine,
  versions,
  startedAt,
  commit,
  command,
  floorMicroseconds,
  seconds,
}: Results): string {
  return (
    `Measured ${startedAt.slice(0, 10)} at commit ${commit.slice(0, 9)} by \`${command}\` in ${seconds} s on ` +
    `${machine['processor'] ?? 'an unknown processor'}, ${machine['cores'] ?? '?'} cores, Node ${versions['node'] ?? '?'}. ` +
    `**1 floor = ${floorMicroseconds.toFixed(1)} µs.**`
  );
}

function describeBars(all: readonly Results[]): string {
  // A bar that a later result checks again keeps its place.
  const checked = new Map(
    all.flatMap((results) => checkBars(results).map((one) => [one.bar.id, one] as const)),
  );
  const rows = [...checked.values()].map(({ bar, measured, low, high, verdict }) => [
    ...[
      bar.what,
      bar.show(measured),
      `${bar.show(low)} … ${bar.show(high)}`,
      bar.show(bar.bar),
      bar.show(bar.aim),
      verdict,
      `\`${bar.id}\``,
    ],
  ]);
  if (rows.length === 0) return '';
  const sources = all.map(
    ({ command, commit, floorMicroseconds }) =>
      `- \`${command}\` at commit ${commit.slice(0, 9)}, 1 floor = ${floorMicroseconds.toFixed(1)} µs`,
  );
  const head = ['bar', 'measured', 'interval', 'bar', 'aim', '', 'figure in results.json'];
  return `${table(head, rows)}\n\nFrom these runs; where two have a figure, the later counts:\n\n${sources.join('\n')}`;
}

function describeModel(results: Results): string {
  const model = fitModel(results);
  if (model === null) return '';
  const microseconds = (value: number) => `${value.toFixed(1)} µs`;
  const constants = (['whole', 'mainThread'] as const).map((name) => {
    const { fixed, perSignature, perKilobyte } = model[name];
    const inFloors = (perSignature / results.floorMicroseconds).toFixed(2);
    return [
      name === 'whole' ? 'whole process' : 'of that, only on the main thread',
      ...[
        microseconds(fixed),
        `${microseconds(perSignature)} (${inFloors} floors)`,
        microseconds(perKilobyte),
      ],
    ];
  });
  const error = (measured: number, modelled: number) => `${((100 * modelled) / measured - 100).toFixed(0)} %`;
  const checks = model.checks.map(({ traffic, depth, signatures, cpu, throughput }) => [
    ...[
      `${traffic}, depth ${depth}`,
      signatures.toFixed(1),
      microseconds(cpu.measured),
      microseconds(cpu.modelled),
    ],
    error(cpu.measured, cpu.modelled),
    ...[formatValue(throughput.measured, '1/s'), formatValue(throughput.modelled, '1/s')],
    error(throughput.measured, throughput.modelled),
  ]);
  const head = ['', 'signatures', 'CPU', 'model', 'error', 'throughput', 'model', 'error'];
  return `${table(['', 'fixed', 'per signature', 'per kB of body'], constants)}\n\n${table(head, checks)}`;
}

function describeSuite(results: Results, suite: string, quantities: readonly string[]): string {
  const ids = results.figures
    .filter((figure) => figure.suite === suite)
    .map(({ id }) => id.slice(0, id.lastIndexOf('/')));
  const rows = [...new Set(ids)].map((id) => [
    id.slice(suite.length + 1),
    ...quantities.map((name) => show(results, `${id}/${name}`)),
  ]);
  return table(['', ...quantities], rows);
}

function describeProcesses(results: Results): string {
  const layouts = results.figures.filter(({ id }) => /^processes\/\w+\/[\w-]+\/throughput$/.test(id));
  const rows = layouts.map(({ id, parameters }) => [
    `${parameters['traffic'] ?? ''}, ${parameters['processes'] ?? ''} × (1 + ${parameters['workers'] ?? ''} workers)`,
    ...['throughput', 'cpu', 'p50', 'p99', 'resident'].map((name) =>
      withInterval(results, id.replace(/throughput$/, name)),
    ),
  ]);
  return table(['', 'throughput', 'CPU', 'p50', 'p99', 'resident, all together'], rows);
}

function describeEngines(results: Results): string {
  const engines = results.figures.filter(({ id }) => /^engines\/[\w-]+\/cpu$/.test(id));
  const count = (id: string) => show(results, id);
  const rows = engines.map(({ id, samplesInFloors, parameters }) => {
    const { estimate, low, high } = intervalOf(samplesInFloors ?? []);
    const of = id.replace(/cpu$/, '');
    return [
      `\`${parameters['engine'] ?? ''}\``,
      `${estimate.toFixed(2)} (${low.toFixed(2)} … ${high.toFixed(2)})`,
      count(`${of}accepted-wrongly`),
      count(`${of}refused-wrongly`),
      String(parameters['vectors'] ?? ''),
    ];
  });
  return table(['', 'floors', 'accepted wrongly', 'refused wrongly', 'of vectors'], rows);
}

function describeStages(results: Results): string {
  const of = (traffic: string) => results.figures.filter(({ id }) => id.startsWith(`stages/${traffic}/`));
  const stages = [...new Set(of('warm').map(({ parameters }) => String(parameters['stage'])))];
  const depths = [...new Set(of('warm').map(({ parameters }) => Number(parameters['depth'])))].sort(
    (a, b) => a - b,
  );
  const columns = ['warm', 'cold'].flatMap((traffic) => depths.map((depth) => ({ traffic, depth })));
  const rows = stages.map((stage) => [
    stage,
    ...columns.map(({ traffic, depth }) => show(results, `stages/${traffic}/d${depth}/${stage}/time`)),
  ]);
  return table(['', ...columns.map(({ traffic, depth }) => `${traffic} ${depth}`)], rows);
}

function describePeers(results: Results): string {
  const peers = results.figures.filter(({ suite }) => suite === 'peers');
  const names = [...new Set(peers.map(({ parameters }) => String(parameters['peer'])))];
  const depths = [...new Set(peers.map(({ parameters }) => Number(parameters['depth'])))].sort(
    (a, b) => a - b,
  );
  const head = ['', ...depths.flatMap((depth) => [`depth ${depth}`, 'CPU or time'])];
  const rows = names.map((name) => [
    name,
    ...depths.flatMap((depth) => {
      const id = `peers/${name}/d${depth}`;
      const cost = results.figures.some((figure) => figure.id === `${id}/cpu`) ? `${id}/cpu` : `${id}/time`;
      return [show(results, `${id}/throughput`), show(results, cost)];
    }),
  ]);
  return table(head, rows);
}

function show(results: Results, id: string): string {
  const figure = results.figures.find((one) => one.id === id);
  return figure === undefined ? '–' : formatValue(figure.median, figure.unit);
}

function describeLatency(results: Results): string {
  const points = results.figures.filter(({ id }) => /^latency\/\w+\/d\d+\/at\d+\/p50$/.test(id));
  if (points.length === 0) return '';
  const rows = points.map(({ id, parameters, samples }) => [
    `${parameters['traffic'] ?? ''}, depth ${parameters['depth'] ?? ''}, ${parameters['load'] ?? ''} %`,
    ...['p50', 'p90', 'p99', 'p99.9', 'send-delay-p99'].map((name) =>
      withInterval(results, id.replace(/p50$/, name)),
    ),
    `${keptUpIn(results, id.replace(/p50$/, 'kept-up')) ?? '?'} of ${samples.length}`,
  ]);
  const source = `From \`${results.command}\` at commit ${results.commit.slice(0, 9)}; ${describeNoise(results)}`;
  const head = [
    'traffic, depth, load',
    'p50',
    'p90',
    'p99',
    'p99.9',
    'p99 of send delays',
    'runs that kept up',
  ];
  return `![Latency by chain depth](latency-by-depth.svg)\n\n${source}\n\n${table(head, rows)}`;
}

const keptUpIn = (results: Results, id: string) =>
  figureOf(results, id)?.samples.filter((value) => value === 1).length;

function describeOverload(results: Results): string {
  const points = results.figures.filter(({ id }) => /^overload\/w-\w+\/x\d\/goodput$/.test(id));
  if (points.length === 0) return '';
  const names = [
    'offered',
    'goodput',
    'refused',
    'timed-out',
    'p99',
    'refusal-p99',
    'healthz-p99',
    'back-to-normal',
    'resident-highest',
  ];
  const rows = points.map(({ id, parameters }) => [
    `WORKER_THREADS ${parameters['workers'] ?? ''}, ${parameters['factor'] ?? ''}×`,
    ...names.map((name) => withInterval(results, id.replace(/goodput$/, name))),
  ]);
  const crowds = results.figures.filter(({ id }) => /^overload\/[\w-]+\/refused$/.test(id));
  const ofCrowds = ['refused', 'goodput', 'goodput-of-peak', 'p99', 'fastest-refusal', 'healthz-p99'];
  const crowdRows = crowds.map(({ id }) => [
    id.replace(/^overload\/(.*)\/refused$/, '$1').replaceAll('-', ' '),
    ...ofCrowds.map((name) => withInterval(results, id.replace(/refused$/, name))),
  ]);
  return `![Overload](overload.svg)\n\n${table(['', ...names], rows)}\n\n${table(['', ...ofCrowds], crowdRows)}`;
}

/** Says whether the machine was quiet. */
function describeNoise({ interference }: Results): string {
  if (interference.length === 0) return 'what others did on the machine was not recorded.';
  const noisy = interference.filter(({ others, stolen }) => others + stolen > NOISY).length;
  return noisy === 0
    ? 'others never had more than a tenth of the cores meanwhile.'
    : `**others had more than a tenth of the cores in ${noisy} of ${interference.length} measurements.**`;
}

/** A figure with its interval. */
function withInterval(results: Results, id: string): string {
  const figure = results.figures.find((one) => one.id === id);
  if (figure === undefined) return '–';
  const { estimate, low, high } = intervalOf(figure.samples);
  const text = formatValue(estimate, figure.unit);
  return low === high
    ? text
    : `${text} (${formatValue(low, figure.unit)} … ${formatValue(high, figure.unit)})`;
}

const PEERS = [
  ['fastify-sodium-memo', 'in one process'],
  ['fastify-sodium-memo-cluster', 'on node:cluster'],
] as const;

/**
 * Fills the measured parts of the README: the picture of latency by depth, and the comparison with the best
 * alternative. A part stays as it is if the README has no place for it, or no run has figures for it.
 */
export function fillReadme(text: string, all: readonly Results[]): string {
  const parts: Readonly<Record<string, string>> = {
    'latency-picture': all.some((results) => describeLatency(results) !== '')
      ? '![Latency by chain depth: p50 to p99.9, warm and cold](docs/latency-by-depth.svg)'
      : '',
    ratio: all.map(describeRatio).findLast((one) => one !== '') ?? '',
  };
  return Object.entries(parts).reduce((filled, [name, part]) => {
    const place = new RegExp(`(<!-- measured: ${name} -->\\n)[^]*?(<!-- end -->)`);
    return part === ''
      ? filled
      : filled.replace(place, (_, begin: string, end: string) => `${begin}\n${part}\n\n${end}`);
  }, text);
}

/** Says how much more processor time than this service the best alternative takes, run by run. */
export function describeRatio(results: Results): string {
  const clauses = PEERS.flatMap(([peer, where]) => {
    const ratios = [1, 4, 16].flatMap((depth) => {
      const own = figureOf(results, `peers/drs-verify/d${depth}/cpu`)?.samplesInFloors;
      const other = figureOf(results, `peers/${peer}/d${depth}/cpu`)?.samplesInFloors;
      if (!own || !other || own.length < 2 || own.length !== other.length) return [];
      const { estimate, low, high } = intervalOf(other.map((value, at) => value / (own[at] ?? Number.NaN)));
      const told = low > 1 || high < 1 ? '' : ', so no difference can be told';
      return [
        `${estimate.toFixed(2)} times at depth ${depth} (${low.toFixed(2)} … ${high.toFixed(2)}${told})`,
      ];
    });
    return ratios.length === 0 ? [] : [`${where} ${ratios.join(', ')}`];
  });
  if (clauses.length === 0) return '';
  return (
    'Processor time for each warm request of what one who knows the trade writes instead (Fastify, libsodium, a memo of verified ' +
    `receipts; with fewer checks), to that of this service: ${clauses.join('; ')}. Measured ${results.startedAt.slice(0, 10)} at ` +
    `commit ${results.commit.slice(0, 9)} on ${results.machine['cores'] ?? '?'} cores; ${describeNoise(results)}`
  );
}
