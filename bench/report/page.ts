import type { Estimate } from '../measure/statistics.js';
import { finderOf, NOISY, noisyIn, type Figure, type Finder, type Results } from '../run/results.js';
import { FACTORS, POOLS } from '../suites/overload.js';
import { MAX_P99_AT_HALF_LOAD } from './bars.js';
import { LOADS, PICTURES } from './charts.js';
import { fitModel } from './model.js';
import { formatValue } from './table.js';

/** A run as bench/results.json keeps it: of its figures those that pages show, rounded and without their samples. */
export type KeptRun = ReturnType<typeof runOf>;

const round = (value: number) => Number(value.toPrecision(4));
const rounded = ({ median, low, high }: Estimate) => ({
  ...{ median: round(median), low: round(low), high: round(high) },
});

/** A run with all its figures, of which {@link documentOf} keeps some. */
export function runOf(results: Results) {
  const { startedAt, command, machine, floorMicroseconds, interference, thrownAway, figures } = results;
  return {
    commit: `${results.commit.slice(0, 9)}${results.isDirty ? ' with changes' : ''}`,
    ...{ startedAt, command, floorMicroseconds: round(floorMicroseconds) },
    machine: `${machine['processor']}, ${machine['cores']} cores, Node ${machine['node']}`,
    ...{ measurements: interference.length, noisy: noisyIn(results).length, thrownAway },
    figures: figures.map((figure): Figure => {
      const { id, unit, runs, floors } = figure;
      return { id, unit, runs, ...rounded(figure), floors: floors && rounded(floors) };
    }),
  };
}

/** The text of bench/results.json, with a line for each figure. */
export function writeKept({ figures, ...about }: KeptRun): string {
  const head = JSON.stringify(about, null, 1).replace(/\n\}$/, ',');
  return `${head}\n "figures": [\n${figures.map((figure) => `  ${JSON.stringify(figure)}`).join(',\n')}\n ]\n}\n`;
}

/**
 * What the documents say about a run.
 *
 * @returns `kept`: the run, with the figures that are shown and no others
 * @throws Error if a figure that is shown was not measured
 */
export async function documentOf(run: KeptRun) {
  const find = finderOf(run);
  const used = new Set<string>();
  const found: Finder = (id) => {
    used.add(id);
    return find(id);
  };
  const parts = partsOf(run, found);
  const pictures: Record<string, string> = {};
  for (const [name, draw] of Object.entries(PICTURES)) {
    const svg = await draw(found);
    if (svg === null) throw new Error(`nothing was measured for ${name}.svg: run it with --all`);
    pictures[name] = `${svg}\n`;
  }
  const kept: KeptRun = { ...run, figures: run.figures.filter(({ id }) => used.has(id)) };
  return { parts, pictures, kept };
}

/** A generated part of a page. */
export const PART = /(<!-- measured: ([\w-]+) -->\n)[^]*?(<!-- end -->)/g;

/** Fills the generated parts of a page. @throws Error if it has one of an unknown name */
export const fillPage = (text: string, parts: Readonly<Record<string, string>>): string =>
  text.replace(PART, (_, begin: string, name: string, end: string) => {
    const part = parts[name];
    if (part === undefined) throw new Error(`there is no part ${name}`);
    return `${begin}\n${part}\n\n${end}`;
  });

const DEPTHS = [1, 4, 16] as const;
const TRAFFIC = ['warm', 'cold'] as const;

const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [head, head.map((_, at) => (at === 0 ? '---' : '--:')), ...rows]
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n');

const percent = (share: number) => `${Math.round(100 * share)} %`;

/** The generated parts, by their names. */
function partsOf(run: KeptRun, find: Finder): Record<string, string> {
  const need = (id: string): Figure => {
    const figure = find(id);
    if (figure === undefined) throw new Error(`${id} was not measured: run it with --all`);
    return figure;
  };
  const isNoisy = run.noisy > NOISY * run.measurements;
  const floorsOf = (id: string): Estimate => need(id).floors ?? need(id);
  const floors = (id: string) => `${floorsOf(id).median.toFixed(2)} floors`;
  const value = (id: string) => formatValue(need(id).median, need(id).unit);
  const range = (values: readonly number[], digits: number) =>
    [Math.min(...values), Math.max(...values)].map((one) => one.toFixed(digits)).join(' to ');

  const about = () => {
    const { runs } = need('throughput/warm/d4/c32/cpu');
    const few = need('overload/w-default/capacity').runs;
    const noisy = `${run.thrownAway} noisy measurements were thrown away, ${run.noisy} of the ${run.measurements} that count are noisy.`;
    const caution = isNoisy ? '**Too noisy to be used: measure again.** ' : '';
    return (
      `${caution}Measured ${run.startedAt.slice(0, 10)} at commit ${run.commit} by \`${run.command}\`: ${run.machine}, ` +
      `${runs} runs (overload: ${few}). ${noisy} **1 floor = ${run.floorMicroseconds.toFixed(1)} µs.**`
    );
  };

  const cost = () => {
    const cell = (id: string) => {
      const { median, low, high } = floorsOf(id);
      return `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
    };
    const rows = [1, 2, 4, 8, 16].map((depth) => [
      String(depth),
      cell(`throughput/warm/d${depth}/c32/cpu`),
      cell(`throughput/cold/d${depth}/c32/cpu`),
    ]);
    return table(['depth', 'warm', 'cold'], rows);
  };

  const latency = () => {
    const ms = (id: string) => {
      const figure = find(id);
      return figure === undefined ? '–' : String(Number((figure.median / 1000).toPrecision(2)));
    };
    const rows = TRAFFIC.flatMap((traffic) =>
      DEPTHS.map((depth) => {
        const id = `latency/${traffic}/d${depth}`;
        const cells = LOADS.map((load) =>
          ['p50', 'p99', 'p99.9', 'max'].map((at) => ms(`${id}/at${load}/all/${at}`)).join('/'),
        );
        return [`${traffic}, depth ${depth} (${value(`${id}/capacity`)})`, ...cells];
      }),
    );
    const p99s = DEPTHS.map((depth) => floorsOf(`latency/warm/d${depth}/at50/p99`).median);
    const verdict = Math.max(...p99s) <= MAX_P99_AT_HALF_LOAD ? 'is met' : 'is not met';
    const machine = need('latency/machine/all/p99');
    return (
      `${table(['of the capacity', ...LOADS.map((load) => `${load} %`)], rows)}\n\n` +
      `The bar of ${MAX_P99_AT_HALF_LOAD} floors for a warm p99 at half the capacity ${verdict}: ${range(p99s, 1)} floors. ` +
      `A server that does nothing has a p99 of ${formatValue(machine.median, 'µs')} on this machine. ` +
      `The first answer comes ${value('latency/first-answer')} after a start.\n\n` +
      '![Latency by load: p50 to p99.9, warm and cold](latency-by-load.svg)'
    );
  };

  const model = () => {
    const fitted = fitModel(find);
    if (fitted === null) throw new Error('there is no cost model without throughput: run it with --all');
    const { fixed, perSignature, perKilobyte, worstError } = fitted;
    const row = (name: string, signature: number) => [
      name,
      `${fixed.toFixed(1)} µs`,
      `${signature.toFixed(1)} µs (${(signature / run.floorMicroseconds).toFixed(2)} floors)`,
      `${perKilobyte.toFixed(1)} µs`,
    ];
    const rows = [
      row('whole process', perSignature),
      row('of that, only on the main thread', perSignature - run.floorMicroseconds),
    ];
    return `${table(['', 'fixed', 'per signature', 'per kB of body'], rows)}\n\nIts largest error is ${percent(worstError)}.`;
  };

  const batches = () => {
    const [alone, shared] = ['alone', 'shared'].map((way) =>
      need(`client/${way}/c128/cpu`).median.toFixed(0),
    );
    return (
      `Warm, at depth 4, a verdict takes ${floors('batch/warm/d4/b1/cpu')} alone and ` +
      `${floors('batch/warm/d4/b64/cpu')} in [batches](spec/http.md#batches) of 64. A \`DrsClient\` makes batches: ` +
      `with 128 calls in flight, one takes ${shared} µs of the caller's processor time instead of ${alone}.\n\n` +
      '![What a verdict costs by the lines in its batch](batches.svg)'
    );
  };

  const added = () => {
    const grpc = floorsOf('gate/grpc/d4/c32/cpu').median - floorsOf('gate/verify/d4/c32/cpu').median;
    return (
      `Over a warm \`/verify\` of depth 4, \`/gate/mcp\` costs ${floors('gate/added/d4/cpu')} more, gRPC \`Check\` ${grpc.toFixed(2)}, ` +
      `a record of used invocations ${value('usage/added/memory/cpu')} in memory and ${value('usage/added/redis/cpu')} in Redis.`
    );
  };

  /** What is answered in time, of the capacity. */
  const goodput = (host: string, cell: string) =>
    need(`overload/${host}/${cell}/goodput`).median / need(`overload/${host}/capacity`).median;

  const overload = () => {
    const row = (workers: string, host: string, pool: number) => [
      `${workers} (${value(`overload/${host}/capacity`)})`,
      String(pool),
      ...FACTORS.slice(1).map((factor) => percent(goodput(host, `pool-${pool}/x${factor}`))),
    ];
    const rows = [...POOLS.map((pool) => row('default', 'w-default', pool)), row('none', 'w-0', 256)];
    const health = POOLS.flatMap((pool) =>
      FACTORS.map((factor) => need(`overload/w-default/pool-${pool}/x${factor}/healthz-p99`).median),
    );
    const grpc = find('overload/grpc/capacity') && percent(goodput('grpc', 'pool-64/x3'));
    return (
      `${table(['workers', 'connections', ...FACTORS.slice(1).map((factor) => `${factor}×`)], rows)}\n\n` +
      `The p99 of \`/healthz\` was at most ${formatValue(Math.max(...health), 'µs')} ([accept queue](operations.md#capacity)). ` +
      `At 3× over 256 connections \`/gate/mcp\` has ${percent(goodput('gate', 'pool-256/x3'))} and \`node:http\` ` +
      `${percent(goodput('node', 'pool-256/x3'))}${grpc ? `; gRPC, at depth 16 over 64, ${grpc}` : ''}.\n\n` +
      '![Overload: answered, refused and given up, by the load, for 64 to 4,000 connections](overload.svg)'
    );
  };

  const engines = () => {
    const vectors = value('engines/vectors');
    const other = (name: string, engine: string) =>
      `${name} needs ${floors(`engines/${engine}/cpu`)} and accepts ${value(`engines/${engine}/accepted-wrongly`)}`;
    return (
      `- **Another engine**: ${other('`node:crypto`', 'node-crypto')} of ${vectors} public vectors wrongly; ` +
      `${other('WebCrypto', 'webcrypto')}; \`sodium-native\` ${value('engines/sodium-native/accepted-wrongly')}.`
    );
  };

  const call = () => {
    const rest = DEPTHS.map((depth) => floorsOf(`throughput/warm/d${depth}/c32/cpu`).median - 1);
    const ratios = DEPTHS.map((depth) => need(`peers/fastify/d${depth}/ratio`).median);
    const cost = 'A call under a known delegation costs one Ed25519 verification, however long the chain is';
    if (isNoisy) return `${cost}.`;
    return (
      `${cost}, and ${range(rest, 2)} of that for all else. A tuned Fastify service (libsodium, verified receipts remembered, ` +
      `fewer checks) needs ${range(ratios, 1)} times the CPU.\n\n` +
      '![Latency by load, p50 to p99.9, warm and cold, beside what the machine alone adds](docs/latency-by-load.svg)'
    );
  };

  return {
    ...{ run: about(), call: call(), cost: cost(), latency: latency(), model: model() },
    ...{ batches: batches(), added: added(), overload: overload(), engines: engines() },
  };
}
