import { parseArgs } from 'node:util';

const FULL = {
  mode: 'full' as 'full' | 'all' | 'quick' | 'smoke',
  runs: 4,
  seconds: 1,
  depths: [1, 2, 3, 4, 8, 16],
  /** For what is not measured at all depths: latencies, peers, 1 and 128 connections. */
  coreDepths: [1, 4, 16],
  latencySeconds: 2,
  /** Loads of the latency suite, in percent of the capacity. */
  loads: [10, 30, 50, 70, 90],
  overloadSeconds: 5,
};
export type Plan = Readonly<typeof FULL>;

const PLANS: Readonly<Record<Plan['mode'], Plan>> = {
  full: FULL,
  all: { ...FULL, mode: 'all', runs: 6, depths: [1, 2, 4, 8, 16] },
  quick: {
    ...{ ...FULL, mode: 'quick', runs: 1, depths: [1, 4, 16], coreDepths: [4] },
    ...{ latencySeconds: 1, loads: [30, 50, 90], overloadSeconds: 3 },
  },
  smoke: { ...FULL, mode: 'smoke', runs: 1, depths: [1, 4], coreDepths: [1, 4] },
};

export type Options = ReturnType<typeof readOptions>;
export type UrlOptions = NonNullable<Options['url']>;

export const USAGE = `npm run bench -- [options]

  --all                everything that docs/performance.md says, for npm run bench:document. It takes six runs of most suites in
                       turn (--list says how long), and noisy measurements again. Given the folder of one that was interrupted
                       as --out, it goes on
  --quick              a minute or two: fewer depths, one run of each figure, so no intervals
  --smoke              a minute, for CI: verdicts, generous ratios to the floor and the tests of the generators; exits with 1
                       where one fails
  --only <a,b>         only these suites (--list names them)
  --list               names the suites, and what takes how long
  --out <directory>    where the results go (default: bench/results/<time>-<commit>)

  --runs <n>           independent runs of each figure (default 4, all 6, quick 1)
  --seconds <n>        of each run under load (default 1; latency 2, and a sixth of it to warm up; overload 5)
  --depths <1,4>       chain depths

  --url <address>      a verifier that runs already, instead of the suites: first whether its verdicts are right (else exit code
                       1, and no figures), then its latencies at the same loads. Its replay protection must be off
  --template <file>    the body of its requests, with {{bundle}}, or {{receipts}} and {{invocation}}, for what is JSON there
  --marker <text>      what its answer to a valid call has, and no other; default: what POST /verify answers, with its codes
  --yes-it-is-mine     also where the address is not of this machine
`;

/**
 * Reads the command line.
 *
 * @throws Error that names what is wrong
 */
export function readOptions(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      all: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      smoke: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      only: { type: 'string' },
      out: { type: 'string' },
      runs: { type: 'string' },
      seconds: { type: 'string' },
      depths: { type: 'string' },
      url: { type: 'string' },
      template: { type: 'string' },
      marker: { type: 'string' },
      'yes-it-is-mine': { type: 'boolean', default: false },
    },
  });
  const modes = (['all', 'quick', 'smoke'] as const).filter((mode) => values[mode]);
  if (modes.length > 1)
    throw new Error(`both ${modes.map((mode) => `--${mode}`).join(' and ')} are given, expected one`);
  const { url, template = null, marker = null, 'yes-it-is-mine': isMine } = values;
  if (url === undefined && (template !== null || marker !== null || isMine))
    throw new Error('--template, --marker and --yes-it-is-mine are for --url, which is not given');
  if (url !== undefined && (values.smoke || values.only !== undefined))
    throw new Error('--url is given with --smoke or --only, expected one: it is no suite');
  const base = PLANS[modes[0] ?? 'full'];
  const runs = wholeNumber('runs', values.runs);
  const seconds = wholeNumber('seconds', values.seconds);
  const depths = values.depths?.split(',').map((text) => wholeNumber('depths', text) ?? 0);
  const plan: Plan = {
    ...base,
    ...(runs && { runs }),
    ...(seconds && { seconds, latencySeconds: seconds, overloadSeconds: seconds }),
    ...(depths && { depths, coreDepths: depths }),
  };
  return {
    plan,
    only: values.only?.split(',') ?? null,
    out: values.out ?? null,
    /** What is measured instead of the suites: a verifier of somebody else, and how to ask it. */
    url: url === undefined ? null : { url, template, marker, isMine },
    show: values.help ? 'help' : values.list ? 'list' : null,
  };
}

/** @returns `undefined` where the option is not given */
export function wholeNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new Error(`--${option} has ${JSON.stringify(text)}, expected a whole number above 0`);
}
