import { parseArgs } from 'node:util';
import { PLANS, type Mode, type Plan } from './plan.js';
import type { Traffic } from '../workload/workload.js';

/** The options of the command line. */
export interface Options {
  readonly plan: Plan;
  /** Names of suites, or `null` for all suites of the mode. */
  readonly only: readonly string[] | null;
  readonly peers: boolean;
  readonly out: string | null;
  readonly show: 'help' | 'list' | null;
}

/** For `--help`. */
export const USAGE = `npm run bench -- [options]

  --quick              a minute or two, fewer depths, one run of each figure
  --smoke              a minute: verdicts, generous ratios to the floor and the tests of the generators, for CI; exits with 1
                       where one fails
  --only <a,b>         only these suites (--list names them)
  --peers              also what one would write or pick instead
  --list               names the suites
  --out <directory>    where the results go (default: bench/results/<time>-<commit>)

  --runs <n>           independent runs of each figure (default 4, quick 1)
  --seconds <n>        of each run under load (default: closed loop 1, wrk takes whole seconds; overload 10)
  --depths <1,4>       chain depths
  --traffic <warm,..>  warm, cold, mixed, forged, malformed
  --connections <32>   of closed loops; together with --depths or --traffic every combination is measured
  --verdicts <n>       of the memory suite (default 200,000; a million with --only memory)
`;

const TRAFFICS: readonly string[] = ['warm', 'cold', 'mixed', 'forged', 'malformed'] satisfies Traffic[];

/**
 * Reads the command line.
 *
 * @throws Error that names what is wrong
 */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      smoke: { type: 'boolean', default: false },
      peers: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      only: { type: 'string' },
      out: { type: 'string' },
      runs: { type: 'string' },
      seconds: { type: 'string' },
      depths: { type: 'string' },
      traffic: { type: 'string' },
      connections: { type: 'string' },
      verdicts: { type: 'string' },
    },
  });
  const mode: Mode = values.smoke ? 'smoke' : values.quick ? 'quick' : 'full';
  const only = values.only?.split(',') ?? null;
  const base = PLANS[mode];
  const isMemoryAlone = mode === 'full' && only?.length === 1 && only[0] === 'memory';
  const memoryVerdicts = isMemoryAlone ? 1_000_000 : base.memoryVerdicts;
  const seconds = values.seconds === undefined ? base.seconds : positive('seconds', values.seconds);
  const depths =
    values.depths === undefined ? null : values.depths.split(',').map((text) => positive('depths', text));
  const plan: Plan = {
    ...base,
    runs: values.runs === undefined ? base.runs : positive('runs', values.runs),
    seconds,
    depths: depths ?? base.depths,
    coreDepths: depths ?? base.coreDepths,
    openLoopDepths: depths ?? base.openLoopDepths,
    openLoopSeconds: values.seconds === undefined ? base.openLoopSeconds : seconds,
    latencySeconds: values.seconds === undefined ? base.latencySeconds : seconds,
    latencyRuns: values.runs === undefined ? base.latencyRuns : positive('runs', values.runs),
    overloadSeconds: values.seconds === undefined ? base.overloadSeconds : seconds,
    overloadRuns: values.runs === undefined ? base.overloadRuns : positive('runs', values.runs),
    traffics: values.traffic === undefined ? base.traffics : readTraffics(values.traffic),
    connections:
      values.connections?.split(',').map((text) => positive('connections', text)) ?? base.connections,
    isGrid: values.connections !== undefined || values.traffic !== undefined,
    memoryVerdicts: values.verdicts === undefined ? memoryVerdicts : positive('verdicts', values.verdicts),
  };
  const show = values.help ? 'help' : values.list ? 'list' : null;
  return { plan, only, peers: values.peers, out: values.out ?? null, show };
}

function positive(option: string, text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new Error(`--${option} has ${JSON.stringify(text)}, expected whole numbers above 0`);
}

function readTraffics(text: string): Traffic[] {
  return text.split(',').map((name) => {
    if (TRAFFICS.includes(name)) return name as Traffic;
    throw new Error(`--traffic has ${JSON.stringify(name)}, expected ${TRAFFICS.join(', ')}`);
  });
}
