import { InvalidArgumentError, type Command } from 'commander';
import type { IssuedPolicy, JsonObject } from '../issue/index.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { CommandError } from './command-error.js';
import { readText } from './files.js';
import { parseEnd, parseTime, TIME_FORMS } from './times.js';

/** The values of the options that {@link addGrantOptions} adds. */
export interface GrantOptions {
  readonly to: string;
  readonly tool?: string[];
  readonly maxCost?: number;
  readonly maxTotalCost?: number;
  readonly maxCalls?: number;
  readonly maxDelegations?: number;
  readonly resource?: string[];
  readonly dataClass?: string[];
  readonly denyPii?: true;
  readonly denyWrite?: true;
  readonly policy?: string;
  readonly statusIndex?: number;
  readonly expires?: number | 'never';
  readonly notBefore?: number;
  readonly out?: string;
  readonly force?: true;
}

/**
 * Adds the options of a receipt that is issued.
 *
 * @param now Unix seconds, for durations
 */
export function addGrantOptions(command: Command, now: number): Command {
  return command
    .requiredOption('--to <did|file>', 'the delegate: its DID or its .pub file')
    .option('--tool <name>', 'allow this tool; repeat for more, "*" for any', collect)
    .option('--max-cost <usd>', 'maximum cost of a call, in US dollars', parseNumber)
    .option('--max-total-cost <usd>', 'maximum cost of all calls together, in US dollars', parseNumber)
    .option('--max-calls <count>', 'maximum number of calls', parseNumber)
    .option('--max-delegations <count>', 'how many receipts may follow; 0: not to be passed on', parseNumber)
    .option('--resource <uri>', 'allow this resource, or prefix/*; repeat for more', collect)
    .option('--data-class <name>', 'allow this class of data; repeat for more', collect)
    .option('--deny-pii', 'no access to personal data')
    .option('--deny-write', 'no write access')
    .option('--policy <json>', 'a policy as JSON, or @file; the options above are put on top')
    .option(
      '--status-index <n>',
      'its index in the status list, by which `npx drs-verify revoke` can end it',
      parseIndex,
    )
    .option(
      '--expires <time>',
      `when it ends (default: an hour after its start, or with its parent): ${TIME_FORMS}; or never`,
      (text) => parseEnd(text, now),
    )
    .option('--not-before <time>', 'when it starts (default: now, or with its parent)', (text) =>
      parseTime(text, now),
    )
    .option('-o, --out <file>', 'where to write the chain (default: standard output)')
    .option('--force', 'replace the file where it exists');
}

/** Says if no status list can end a receipt, and if its counts are forgotten before it ends. */
export function noteWhatToKnow({ statusIndex, expires }: GrantOptions, policy: IssuedPolicy): void {
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

/** Makes a policy from the options; empty if none was given. Issuing checks it. */
export async function readPolicy(options: GrantOptions): Promise<IssuedPolicy> {
  const {
    tool,
    maxCost,
    maxTotalCost,
    maxCalls,
    maxDelegations,
    resource,
    dataClass,
    denyPii,
    denyWrite,
    policy,
  } = options;
  return {
    ...((policy === undefined ? {} : await readJsonObject(policy, '--policy')) as IssuedPolicy),
    ...(tool && { allowed_tools: tool }),
    ...(maxCost !== undefined && { max_cost_usd: maxCost }),
    ...(maxTotalCost !== undefined && { max_total_cost_usd: maxTotalCost }),
    ...(maxCalls !== undefined && { max_calls: maxCalls }),
    ...(maxDelegations !== undefined && { max_delegations: maxDelegations }),
    ...(resource && { allowed_resources: resource }),
    ...(dataClass && { allowed_data_classes: dataClass }),
    ...(denyPii && { pii_access: false }),
    ...(denyWrite && { write_access: false }),
  };
}

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

/** Reads a number of an option. */
function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('Expected a number.');
  return value;
}

/** Reads a status list index. */
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
