import { parseArgs } from 'node:util';
import type { Case, Quantity } from './pair.js';

/** The options of `npm run bench:compare`. */
export interface CompareOptions {
  readonly versions: readonly [a: string, b: string];
  readonly cases: readonly Case[];
  /** The smallest effect that counts, as a share: 0.05. */
  readonly detect: number;
  readonly minutes: number;
  /** Share of a request's processor time that B burns in addition, to test the comparison itself. */
  readonly planted: number;
  /** The quantities that decide the exit code. */
  readonly gates: readonly Quantity[];
  /** `WORKER_THREADS` of both; `null` for each version's own default. */
  readonly workers: number | null;
  /** The file for the result as JSON. */
  readonly out: string | null;
}

/** For `--help`. */
export const USAGE = `npm run bench:compare -- --commits <a> <b> [options]

  <a>, <b>          commits, or folders with a working copy (its changes are taken along)
  --depth <1,4>     receipts in the chain (default 4)
  --warm, --cold    traffic (default warm)
  --detect <5>      the smallest regression that counts, in percent (default 5)
  --minutes <5>     gives up after so long: "cannot tell"
  --gate <cpu>      what decides: cpu, latency or both (default cpu,latency)
  --workers <0>     WORKER_THREADS of both (default: that of each version)
  --planted <7>     lets b burn so many percent more processor time in each request, to show that it is found
  --out <file>      writes the result as JSON, too

npm run bench:compare -- --parent   for CI: this working copy with the commit before it, within some 45 s; 10 % counts.
                                    Exit code 1 for a regression; else 0, also where it cannot tell.

Exit code: 0 no regression of that size, 1 a regression, 2 it cannot tell (or could not run).
`;

const GATES: Readonly<Record<string, Quantity>> = { cpu: 'cpu', latency: 'latency p50' };

/** @returns `null` if help is asked for. @throws Error that names what is wrong */
export function readCompareOptions(args: readonly string[]): CompareOptions | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      commits: { type: 'boolean', default: false },
      depth: { type: 'string', default: '4' },
      warm: { type: 'boolean', default: false },
      cold: { type: 'boolean', default: false },
      detect: { type: 'string', default: '5' },
      minutes: { type: 'string', default: '5' },
      gate: { type: 'string', default: 'cpu,latency' },
      workers: { type: 'string' },
      planted: { type: 'string', default: '0' },
      out: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const [a, b, ...more] = positionals;
  if (!values.commits || a === undefined || b === undefined || more.length > 0)
    throw new Error(
      `expected --commits and two versions, found ${positionals.join(' ') || 'none'}\n${USAGE}`,
    );
  const depths = values.depth.split(',').map((text) => number('depth', text, 1, 16));
  const traffics = values.cold
    ? values.warm
      ? (['warm', 'cold'] as const)
      : (['cold'] as const)
    : (['warm'] as const);
  if (values.workers !== undefined && values.planted !== '0')
    throw new Error('--workers and --planted exclude each other: planted work always runs without threads');
  return {
    versions: [a, b],
    cases: traffics.flatMap((traffic) => depths.map((depth) => ({ traffic, depth }))),
    detect: number('detect', values.detect, 0.1, 100) / 100,
    minutes: number('minutes', values.minutes, 0.1, 600),
    planted: number('planted', values.planted, 0, 1000) / 100,
    workers: values.workers === undefined ? null : number('workers', values.workers, 0, 64),
    gates: values.gate.split(',').map((name) => {
      const gate = GATES[name];
      if (gate === undefined)
        throw new Error(`--gate has ${JSON.stringify(name)}, expected cpu, latency or both`);
      return gate;
    }),
    out: values.out ?? null,
  };
}

function number(option: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= min && value <= max) return value;
  throw new Error(`--${option} has ${JSON.stringify(text)}, expected a number from ${min} to ${max}`);
}
