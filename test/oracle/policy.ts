import { canonical, canonicalNumber, decimal, toDouble } from './jcs.js';
import { member, type Json, type JsonObject } from './json.js';

/** The rules of docs/spec/policy.md. For a known member, `null` means the same as absence. */

const LISTS = ['allowed_tools', 'approve_tools', 'allowed_resources', 'allowed_data_classes'] as const;
const LIMITS = ['max_cost_usd', 'max_total_cost_usd', 'max_calls', 'max_delegations'] as const;
const SWITCHES = ['pii_access', 'write_access'] as const;
const KNOWN: readonly string[] = [...LISTS, ...LIMITS, ...SWITCHES];

const MAX_ENTRIES = 4096;
const MAX_TOTAL = 1_000_000_000;

const ANY = '*';

export function hasKnownMembersOfRightType(policy: JsonObject): boolean {
  return policy.members.every(([name, value]) => {
    if (value.kind === 'null' || !KNOWN.includes(name)) return true;
    if (isOneOf(LISTS, name))
      return (
        value.kind === 'array' &&
        value.items.length <= MAX_ENTRIES &&
        value.items.every((item) => item.kind === 'string')
      );
    if (isOneOf(SWITCHES, name)) return value.kind === 'boolean';
    if (value.kind !== 'number') return false;
    const number = toDouble(value.text);
    if (number < 0) return false;
    if (name === 'max_cost_usd') return Number.isFinite(number);
    if (name === 'max_total_cost_usd') return number <= MAX_TOTAL;
    // The specification gives counts no upper bound. Here the largest integer is 2^53−1, as for times and indices.
    return Number.isSafeInteger(number);
  });
}

/** Whether a child's policy is a subset of its parent's. */
export function isWithin(child: JsonObject, parent: JsonObject): boolean {
  for (const name of ['allowed_tools', 'allowed_data_classes'] as const) {
    const [ours, theirs] = [listOf(child, name), listOf(parent, name)];
    if (theirs === undefined || theirs.includes(ANY)) continue;
    if (ours === undefined || !ours.every((entry) => entry !== ANY && theirs.includes(entry))) return false;
  }
  const waits = listOf(child, 'approve_tools') ?? [];
  if (listOf(parent, 'approve_tools')?.every((entry) => waits.includes(entry)) === false) return false;
  const [ours, theirs] = [listOf(child, 'allowed_resources'), listOf(parent, 'allowed_resources')];
  if (theirs !== undefined && !theirs.includes(ANY)) {
    if (ours === undefined || !ours.every((entry) => isCovered(entry, theirs))) return false;
  }
  for (const name of LIMITS) {
    const [mine, its] = [numberOf(child, name), numberOf(parent, name)];
    if (its === undefined) continue;
    if (mine === undefined ? name !== 'max_delegations' : mine > its) return false;
  }
  for (const name of SWITCHES)
    if (booleanOf(parent, name) === false && booleanOf(child, name) === true) return false;

  for (const [name, value] of parent.members) {
    if (KNOWN.includes(name)) continue;
    const same = member(child, name);
    const form = canonical(value);
    if (same === undefined || form === undefined || canonical(same) !== form) return false;
  }
  return true;
}

/** Whether a list of tools names a call (docs/spec/approval.md). */
export function names(tools: readonly string[], args: JsonObject): boolean {
  const tool = member(args, 'tool');
  return tools.some((entry) => entry === ANY || tool?.kind !== 'string' || tool.value === entry);
}

/** Whether a policy waits for a yes to a call. */
export function waitsFor(policy: JsonObject, args: JsonObject): boolean {
  return names(listOf(policy, 'approve_tools') ?? [], args);
}

/** Whether a call costs more US dollars than an amount, or nobody says what. */
export function isAbove(usd: number, args: JsonObject, said: Said): boolean {
  const stated = member(args, 'estimated_cost_usd');
  const byTool = said.get('estimated_cost_usd');
  if (byTool === 'unknown' || (byTool === undefined && stated === undefined)) return true;
  const costs = [...(byTool ?? []), ...(stated === undefined ? [] : [stated])];
  return !costs.every((cost) => {
    if (cost.kind !== 'number') return false;
    const number = toDouble(cost.text);
    return number >= 0 && number <= MAX_TOTAL && number <= usd;
  });
}

/** What an operator says of a tool: values by the argument, or what makes it impossible to say one. */
export type Said = ReadonlyMap<string, readonly Json[] | 'unknown'>;

/** Whether one level allows a call with these arguments. @param said what the operator says of its tool */
export function allows(policy: JsonObject, args: JsonObject, said: Said = new Map(), lax = false): boolean {
  const tools = listOf(policy, 'allowed_tools');
  if (tools !== undefined) {
    const tool = member(args, 'tool');
    if (tool === undefined) {
      if (!tools.includes(ANY)) return false;
    } else if (tool.kind !== 'string' || !(tools.includes(ANY) || tools.includes(tool.value))) return false;
  }
  /** All that is said of an argument must pass; if nothing is, the limit must be none, or the operator lax. */
  const holds = (
    argument: string,
    limitsNothing: boolean,
    passes: (value: Json) => boolean,
    needed = false,
  ) => {
    const stated = member(args, argument);
    const values = said.get(argument);
    if (stated !== undefined && !passes(stated)) return false;
    if (values === 'unknown') return limitsNothing;
    if (values !== undefined) return values.every(passes);
    return stated !== undefined || limitsNothing || (lax && !needed);
  };

  const maxCost = numberOf(policy, 'max_cost_usd');
  if (maxCost !== undefined) {
    const within = (cost: Json) => {
      if (cost.kind !== 'number') return false;
      const number = toDouble(cost.text);
      return Number.isFinite(number) && number >= 0 && number <= maxCost;
    };
    if (!holds('estimated_cost_usd', false, within)) return false;
  }

  const total = textOf(policy, 'max_total_cost_usd');
  if (total !== undefined) {
    const within = (cost: Json) => {
      if (cost.kind !== 'number') return false;
      const number = toDouble(cost.text);
      if (!(number >= 0 && number <= MAX_TOTAL)) return false;
      return microDollars(cost.text).roundedUp <= microDollars(total).roundedDown;
    };
    if (!holds('estimated_cost_usd', false, within, true)) return false;
  }

  for (const name of SWITCHES) {
    if (booleanOf(policy, name) !== false) continue;
    if (!holds(name, false, (wanted) => wanted.kind === 'boolean' && !wanted.value)) return false;
  }

  const resources = listOf(policy, 'allowed_resources');
  if (resources !== undefined) {
    const covered = (resource: Json) =>
      resource.kind === 'string' && (resources.includes(ANY) || isCovered(resource.value, resources));
    if (!holds('resource_uri', resources.includes(ANY), covered)) return false;
  }

  const classes = listOf(policy, 'allowed_data_classes');
  if (classes !== undefined) {
    const known = (dataClass: Json) =>
      dataClass.kind === 'string' && (classes.includes(ANY) || classes.includes(dataClass.value));
    if (!holds('data_class', classes.includes(ANY), known)) return false;
  }
  return true;
}

/** The arguments that a policy speaks of, in the order of its members, and whether it limits none of their values. */
export function limitedArguments(policy: JsonObject): [argument: string, limitsNothing: boolean][] {
  const found: [string, boolean][] = [];
  for (const name of ['max_cost_usd', 'max_total_cost_usd'] as const)
    if (numberOf(policy, name) !== undefined) found.push(['estimated_cost_usd', false]);
  for (const name of SWITCHES) {
    const value = booleanOf(policy, name);
    if (value !== undefined) found.push([name, value]);
  }
  for (const [name, argument] of [
    ['allowed_resources', 'resource_uri'],
    ['allowed_data_classes', 'data_class'],
  ] as const) {
    const list = listOf(policy, name);
    if (list !== undefined) found.push([argument, list.includes(ANY)]);
  }
  return found;
}

/** Amounts together: one as it is, several in micro-dollars, which are rounded up. */
export function sumOf(amounts: readonly (Json & { kind: 'number' })[]): Json & { kind: 'number' } {
  const [first, ...others] = amounts;
  if (first !== undefined && others.length === 0) return first;
  if (amounts.some(({ text }) => toDouble(text) > MAX_TOTAL)) return { kind: 'number', text: '1e999' };
  const micro = amounts.reduce((sum, { text }) => sum + microDollars(text).roundedUp, 0n);
  return { kind: 'number', text: `${micro}e-6` };
}

/** Whether a receipt allows that so many receipts follow it. */
export function allowsDelegations(policy: JsonObject, count: number): boolean {
  const limit = numberOf(policy, 'max_delegations');
  return limit === undefined || count <= limit;
}

/** What all calls under a receipt may do together; `undefined` for what it does not limit. */
export function limitsOfAllCalls(policy: JsonObject): { calls?: bigint; microDollars?: bigint } {
  const calls = numberOf(policy, 'max_calls');
  const total = textOf(policy, 'max_total_cost_usd');
  return {
    ...(calls !== undefined && { calls: BigInt(calls) }),
    ...(total !== undefined && { microDollars: microDollars(total).roundedDown }),
  };
}

/** The micro-dollars that a call is charged with; of interest only under a limit, which then has checked its cost. */
export function costOf(args: JsonObject, said: Said = new Map()): bigint {
  const values = said.get('estimated_cost_usd');
  const cost = values === undefined ? member(args, 'estimated_cost_usd') : values[0];
  return typeof cost === 'object' && cost.kind === 'number' ? microDollars(cost.text).roundedUp : 0n;
}

/** An amount in micro-dollars: the decimal number of its RFC 8785 form, times 10^6. */
function microDollars(text: string): { roundedDown: bigint; roundedUp: bigint } {
  const { digits, exponent } = decimal(canonicalNumber(text) ?? '0');
  const power = exponent + 6n;
  if (power >= 0n) {
    const exact = BigInt(digits) * 10n ** power;
    return { roundedDown: exact, roundedUp: exact };
  }
  const roundedDown = BigInt(digits) / 10n ** -power;
  return {
    roundedDown,
    roundedUp: roundedDown * 10n ** -power === BigInt(digits) ? roundedDown : roundedDown + 1n,
  };
}

/** Whether a resource equals an entry or is below a `prefix/*`. */
function isCovered(resource: string, entries: readonly string[]): boolean {
  return entries.some(
    (entry) =>
      entry === resource ||
      (entry.endsWith('/*') && !isEvasive(resource) && resource.startsWith(entry.slice(0, -1))),
  );
}

/** Whether a resource may be outside the prefix with which its text begins. Then it matches no prefix. */
export function isEvasive(resource: string): boolean {
  for (const character of resource)
    if (character < '\u0021' || character === '\u007f' || character === '\\') return true;
  // A segment also ends at the end of a URI's path, and at an encoded slash or backslash, which some servers decode
  // first.
  return resource
    .split(/[/?#]|%2f|%5c/i)
    .map((segment) => segment.replace(/%2e/gi, '.'))
    .some((segment) => segment === '.' || segment === '..');
}

function listOf(policy: JsonObject, name: (typeof LISTS)[number]): string[] | undefined {
  const value = member(policy, name);
  if (value?.kind !== 'array') return undefined;
  return value.items.map((item) => (item as Json & { kind: 'string' }).value);
}

function textOf(policy: JsonObject, name: (typeof LIMITS)[number]): string | undefined {
  const value = member(policy, name);
  return value?.kind === 'number' ? value.text : undefined;
}

function numberOf(policy: JsonObject, name: (typeof LIMITS)[number]): number | undefined {
  const text = textOf(policy, name);
  return text === undefined ? undefined : toDouble(text);
}

function booleanOf(policy: JsonObject, name: (typeof SWITCHES)[number]): boolean | undefined {
  const value = member(policy, name);
  return value?.kind === 'boolean' ? value.value : undefined;
}

function isOneOf<T extends string>(names: readonly T[], name: string): name is T {
  return (names as readonly string[]).includes(name);
}
