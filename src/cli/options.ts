import { InvalidArgumentError, Option, type Command } from 'commander';
import { clock } from '../issue/options.js';
import type { IssuedPolicy, JsonObject } from '../issue/index.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import type { KnownPolicyMember } from '../protocol/policy.js';
import { CommandError } from './command-error.js';
import { readText, type WriteOptions } from './files.js';
import { showJson } from './terminal.js';

const SECONDS_OF = { s: 1, m: 60, h: 3600, d: 86_400 } as const;
const ISO_WITH_ZONE = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

/** The accepted forms of a time, for help texts. */
const TIME_FORMS = '90s, 30m, 8h, 7d from now; 2030-01-31T12:00:00Z; or Unix seconds';

/**
 * Reads the time in an option.
 *
 * @returns Unix seconds
 * @throws InvalidArgumentError, which commander reports
 * @example parseTime('8h'); // in eight hours
 */
export const parseTime = (text: string): number => readTime(text, 1);

/** The same, but `8h` was eight hours ago. */
export const parsePast = (text: string): number => readTime(text, -1);

function readTime(text: string, way: 1 | -1): number {
  const [, count, unit] = /^(\d{1,10})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return clock() + way * Number(count) * SECONDS_OF[unit as keyof typeof SECONDS_OF];
  const time = /^\d{1,15}$/.test(text)
    ? Number(text)
    : ISO_WITH_ZONE.test(text)
      ? Math.floor(Date.parse(text) / 1000)
      : NaN;
  if (time >= 0) return time;
  throw new InvalidArgumentError(`Expected ${TIME_FORMS}.`);
}

function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('Expected a number.');
  return value;
}

export function parseIndex(text: string): number {
  const index = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(index)) return index;
  throw new InvalidArgumentError('Expected an integer from 0 to 2^53-1.');
}

/** Gathers the values of an option that can be repeated. */
export function collect(value: string, previous: readonly string[] | undefined): string[] {
  // Of a shell variable that is not set: nothing has this name, so nothing would be allowed.
  if (value.trim() === '') throw new InvalidArgumentError('Expected a name, not an empty text.');
  return [...(previous ?? []), value];
}

/** An option that can be repeated: a list of its values, which is empty without it. */
export const list = (flags: string, says: string) => new Option(flags, says).argParser(collect).default([]);

/** Reads a JSON object from the command line, or from a file if the text is `@file`. */
export async function readJsonObject(text: string, option: string): Promise<JsonObject> {
  const json = text.startsWith('@') ? await readText(text.slice(1), `a JSON object for ${option}`) : text;
  const { value, defect } = parseStrictJson(json);
  if (isJsonObject(value)) return value;
  if (defect !== undefined && defect.kind !== 'syntax')
    throw new CommandError(
      `${option} is no strict JSON: ${defect.message}`,
      defect.kind === 'number' ? 'write this number as a string' : 'correct it: a verifier refuses such JSON',
    );
  throw new CommandError(
    `${option} is not a JSON object: ${defect?.message ?? 'it is another JSON value'}`,
    `quote it for the shell, as in ${option} '{"name":"value"}', or put it into a file and write ${option} @file`,
  );
}

const limit = <T>(flags: string, says: string, parse: (text: string, previous: T) => T) =>
  new Option(flags, says).argParser(parse);

/** The members of a policy, and the option that sets each. */
const LIMITS: readonly (readonly [KnownPolicyMember, Option])[] = [
  ['allowed_tools', limit('--tool <name>', 'allow this tool; repeat for more, "*" for any', collect)],
  ['max_cost_usd', limit('--max-cost <usd>', 'maximum cost of a call, in US dollars', parseNumber)],
  [
    'max_total_cost_usd',
    limit('--max-total-cost <usd>', 'maximum cost of all calls together, in US dollars', parseNumber),
  ],
  ['max_calls', limit('--max-calls <count>', 'maximum number of calls', parseNumber)],
  [
    'max_delegations',
    limit('--max-delegations <count>', 'how many receipts may follow; 0: not to be passed on', parseNumber),
  ],
  [
    'allowed_resources',
    limit('--resource <uri>', 'allow this resource, or prefix/*; repeat for more', collect),
  ],
  [
    'allowed_data_classes',
    limit('--data-class <name>', 'allow this class of data; repeat for more', collect),
  ],
  [
    'approve_tools',
    limit(
      '--ask-before <tool>',
      'a person\'s yes to each call of this tool; repeat for more, "*" for any',
      collect,
    ),
  ],
  ['pii_access', new Option('--deny-pii', 'no access to personal data').preset(false)],
  ['write_access', new Option('--deny-write', 'no write access').preset(false)],
];

/** The values of the options that {@link addGrantOptions} adds. Those of the limits are for {@link readPolicy}. */
export interface GrantOptions extends WriteOptions {
  readonly to: string;
  readonly policy?: string;
  readonly statusIndex?: number;
  // Not null: commander takes that for an option without a value.
  readonly expires?: number | 'never';
  readonly notBefore?: number;
  readonly out?: string;
}

export function addGrantOptions(command: Command): Command {
  command.requiredOption('--to <did|file>', 'the delegate: its DID or its .pub file');
  for (const [, option] of LIMITS) command.addOption(option);
  return command
    .option('--policy <json>', 'a policy as JSON, or @file; the options above are put on top')
    .option(
      '--status-index <n>',
      'its index in the status list, by which `npx drs-verify revoke` can end it',
      parseIndex,
    )
    .option(
      '--expires <time>',
      `when it ends (default: an hour after its start, or with its parent): ${TIME_FORMS}; or never`,
      (text) => (text === 'never' ? text : parseTime(text)),
    )
    .option('--not-before <time>', 'when it starts (default: now, or with its parent)', parseTime)
    .option('-o, --out <file>', 'where to write the chain (default: standard output)')
    .option('--force', 'replace the file where it exists');
}

/** Makes a policy from the options; empty if none was given. Issuing checks it. */
export async function readPolicy(options: GrantOptions): Promise<IssuedPolicy> {
  const given: Readonly<Record<string, unknown>> = { ...options };
  const limits = LIMITS.map(([member, option]) => [member, given[option.attributeName()]] as const);
  return {
    ...(options.policy === undefined ? {} : await readJsonObject(options.policy, '--policy')),
    ...Object.fromEntries(limits.filter(([, value]) => value !== undefined)),
  } as IssuedPolicy;
}

/** Says what somebody may not have meant: several names in one, no end by a status list, counts that are forgotten. */
export function noteWhatToKnow({ statusIndex, expires }: GrantOptions, policy: IssuedPolicy): void {
  const lists = [policy.allowed_tools, policy.allowed_data_classes, policy.approve_tools];
  for (const name of lists.flatMap((names) => names ?? []))
    if (name.includes(','))
      process.stderr.write(
        `note: ${showJson(name)} is one name with a comma in it; for several, repeat the option\n`,
      );
  if (statusIndex === undefined)
    process.stderr.write(
      'note: this receipt has no status list index, so before it ends only those who run verifiers can revoke it, each at their own (`npx drs-verify revoke --receipt`); --status-index gives it one\n',
    );
  if (expires === 'never' && (policy.max_calls ?? policy.max_total_cost_usd) !== undefined)
    process.stderr.write(
      'note: this receipt has no end, so verifiers forget how often it was used, and what it cost, 400 days after the last call; --expires gives it an end\n',
    );
  if (policy.max_total_cost_usd !== undefined)
    process.stderr.write(
      'note: each call must state its cost (estimated_cost_usd), for which most MCP tools have no argument: theirs are refused; --max-calls limits them\n',
    );
}

export interface StatedOptions {
  readonly sessionId?: string;
  readonly correlationId?: string;
  readonly regulatory?: string;
}

/** Adds the options for what tool servers and logs are shown, and what decides nothing. */
export function addStatedOptions(command: Command): Command {
  return command
    .option('--session-id <id>', 'the session of the agent')
    .option('--correlation-id <id>', 'an id under which the calls are found elsewhere')
    .option('--regulatory <json>', 'rules that apply: frameworks, risk_level, retention_days; or @file');
}

export async function readStated({ sessionId, correlationId, regulatory }: StatedOptions) {
  const rules = regulatory === undefined ? undefined : await readJsonObject(regulatory, '--regulatory');
  return { sessionId, correlationId, regulatory: rules };
}
