import { canonical, toDouble } from './jcs.js';
import { member, type Json, type JsonObject } from './json.js';

/** The rules of docs/spec/policy.md. For a known member, `null` means the same as absence. */

const LISTS = ['allowed_tools', 'allowed_resources', 'allowed_data_classes'] as const;
const LIMITS = ['max_cost_usd', 'max_calls'] as const;
const SWITCHES = ['pii_access', 'write_access'] as const;
const KNOWN: readonly string[] = [...LISTS, ...LIMITS, ...SWITCHES];

const MAX_ENTRIES = 4096;

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
    // The specification gives `max_calls` no upper bound. Here the largest integer is 2^53−1, as for times and indices.
    return number >= 0 && (name === 'max_calls' ? Number.isSafeInteger(number) : Number.isFinite(number));
  });
}

/** Whether a child's policy is a subset of its parent's. */
export function isWithin(child: JsonObject, parent: JsonObject): boolean {
  for (const name of ['allowed_tools', 'allowed_data_classes'] as const) {
    const [ours, theirs] = [listOf(child, name), listOf(parent, name)];
    if (theirs === undefined || theirs.includes(ANY)) continue;
    if (ours === undefined || !ours.every((entry) => entry !== ANY && theirs.includes(entry))) return false;
  }
  const [ours, theirs] = [listOf(child, 'allowed_resources'), listOf(parent, 'allowed_resources')];
  if (theirs !== undefined && !theirs.includes(ANY)) {
    if (ours === undefined || !ours.every((entry) => isCovered(entry, theirs))) return false;
  }
  for (const name of LIMITS) {
    const [mine, its] = [numberOf(child, name), numberOf(parent, name)];
    if (its !== undefined && (mine === undefined || mine > its)) return false;
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

/** Whether one level allows a call with these arguments. */
export function allows(policy: JsonObject, args: JsonObject): boolean {
  const tools = listOf(policy, 'allowed_tools');
  if (tools !== undefined) {
    const tool = member(args, 'tool');
    if (tool === undefined) {
      if (!tools.includes(ANY)) return false;
    } else if (tool.kind !== 'string' || !(tools.includes(ANY) || tools.includes(tool.value))) return false;
  }

  const maxCost = numberOf(policy, 'max_cost_usd');
  const cost = member(args, 'estimated_cost_usd');
  if (maxCost !== undefined && cost !== undefined) {
    if (cost.kind !== 'number') return false;
    const number = toDouble(cost.text);
    if (!Number.isFinite(number) || number < 0 || number > maxCost) return false;
  }

  for (const name of SWITCHES) {
    const wanted = member(args, name);
    if (booleanOf(policy, name) !== false || wanted === undefined) continue;
    if (wanted.kind !== 'boolean' || wanted.value) return false;
  }

  const resources = listOf(policy, 'allowed_resources');
  const resource = member(args, 'resource_uri');
  if (resources !== undefined && resource !== undefined) {
    if (resource.kind !== 'string') return false;
    if (!resources.includes(ANY) && !isCovered(resource.value, resources)) return false;
  }

  const classes = listOf(policy, 'allowed_data_classes');
  const dataClass = member(args, 'data_class');
  if (classes !== undefined && dataClass !== undefined) {
    if (dataClass.kind !== 'string') return false;
    if (!classes.includes(ANY) && !classes.includes(dataClass.value)) return false;
  }
  return true;
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
function isEvasive(resource: string): boolean {
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

function numberOf(policy: JsonObject, name: (typeof LIMITS)[number]): number | undefined {
  const value = member(policy, name);
  return value?.kind === 'number' ? toDouble(value.text) : undefined;
}

function booleanOf(policy: JsonObject, name: (typeof SWITCHES)[number]): boolean | undefined {
  const value = member(policy, name);
  return value?.kind === 'boolean' ? value.value : undefined;
}

function isOneOf<T extends string>(names: readonly T[], name: string): name is T {
  return (names as readonly string[]).includes(name);
}
