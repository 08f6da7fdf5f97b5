import type { JsonObject, JsonValue } from '../protocol/json.js';
import { toMicroUsd, toUsd } from '../protocol/money.js';
import { isAmount, isMoney, type LimitKind, type LimitValue, type PolicyLimit } from '../protocol/policy.js';
import { isPlainUri } from '../protocol/resources.js';

/** What an operator says of an argument of a tool's calls: a constant, or what another argument of the call says. */
export type Fact =
  | { readonly value: boolean | number | string }
  | {
      /** The name of an argument, or a JSON Pointer (RFC 6901) into `args`, which begins with `/`. */
      readonly argument: string;
      /** A text that comes before what the argument says. */
      readonly before: string;
    };

/** A tool as its operator describes it: facts by the name of the argument that a policy limits. See docs/spec/tools.md. */
export interface Tool {
  readonly facts: ReadonlyMap<string, Fact>;
}

/** The tools that an operator describes, at the time when it is asked. */
export interface Tools {
  /** @param tool `args.tool` of a call; a tool without a line has that of `*` */
  of(tool: JsonValue | undefined): Tool | null;
}

/** What the operator says of the tool of a call. */
export function toolOf(tools: Tools | null, args: JsonObject): Tool | null {
  return tools === null ? null : tools.of(args['tool']);
}

/** What is said of an argument: its values, all of which count, or why nothing is known. */
type Said = { readonly values: readonly JsonValue[] } | { readonly found: JsonValue | undefined };

const isBoolean = (value: JsonValue) => typeof value === 'boolean';

/** What each value must be, by the argument that it is said of. */
const FORMS = new Map<string, (value: JsonValue) => boolean>([
  ['estimated_cost_usd', isAmount],
  ['write_access', isBoolean],
  ['pii_access', isBoolean],
  ['resource_uri', (value) => typeof value === 'string' && isPlainUri(value)],
  ['data_class', (value) => typeof value === 'string'],
]);

/** The longest array that an argument may be: each level compares its entries with its lists. An empty one says nothing. */
const MAX_ENTRIES = 256;

/** Amounts are decimal numbers, which doubles do not add exactly. */
function sumOf(amounts: readonly number[]): number {
  if (amounts.length === 1) return amounts[0] as number;
  const micro = amounts.map((amount) => (isMoney(amount) ? toMicroUsd(amount, 'up') : Infinity));
  return toUsd(micro.reduce((sum, amount) => sum + amount, 0));
}

/**
 * What the operator says of an argument of a call.
 *
 * @returns `null` if nothing is said; of what another argument says, `found` if that is missing or has another type
 */
export function saidOf(tool: Tool | null, name: string, args: JsonObject): Said | null {
  const fact = tool?.facts.get(name);
  if (fact === undefined) return null;
  if ('value' in fact) return { values: [fact.value] };
  const found = at(args, fact.argument);
  const items = Array.isArray(found) ? found : [found];
  if (found === undefined || items.length === 0 || items.length > MAX_ENTRIES) return { found };
  const values = (items as JsonValue[]).map((item) => (typeof item === 'string' ? fact.before + item : item));
  if (!values.every((value) => FORMS.get(name)?.(value))) return { found };
  return { values: name === 'estimated_cost_usd' ? [sumOf(values as number[])] : values };
}

/** The value of an argument, by its name or a JSON Pointer. */
function at(args: JsonObject, argument: string): JsonValue | undefined {
  if (!argument.startsWith('/')) return own(args, argument);
  const steps = argument
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  return steps.reduce<JsonValue | undefined>((value, step) => own(value, step), args);
}

function own(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(name)) return undefined;
  return Object.hasOwn(value, name) ? (value as JsonObject)[name] : undefined;
}

/** The first policy member that a call breaks. */
export interface Violation {
  readonly member: string;
  /** The argument that breaks it, as a name in `args`. */
  readonly argument: string;
  /** The argument's value; `undefined` if it is missing. */
  readonly claimed: JsonValue | undefined;
  readonly allowed: unknown;
  /** Who says so, or should: `tool` is what the operator says of it. */
  readonly by: 'call' | 'tool' | 'nobody';
}

/** Who says what a call does, as far as its receipts limit it. What is absent is empty, or nobody knows it. */
export interface Stated {
  /** By the argument: the operator (`tool`) or the call. */
  readonly stated_by?: Readonly<Record<string, 'tool' | 'call'>>;
  /** Arguments that a receipt limits and nobody states: the call passes that limit. */
  readonly unstated?: readonly string[];
  /** What the operator says that the call costs, in US dollars. */
  readonly cost_usd?: number;
}

/** Who says what a call does: the operator of its tool, where there is a line, else the call. @param argument which a policy limits */
export function sayerOf(argument: string, args: JsonObject, tool: Tool | null): 'tool' | 'call' | 'nobody' {
  if (tool?.facts.has(argument) === true) return 'tool';
  return args[argument] === undefined ? 'nobody' : 'call';
}

/** Who says what a call does that was allowed. @param receipts of its chain */
export function statedOf(
  receipts: readonly { readonly limits: readonly PolicyLimit[] }[],
  args: JsonObject,
  tool: Tool | null,
): Stated {
  const by: Record<string, 'tool' | 'call'> = {};
  const unstated = new Set<string>();
  for (const { limits } of receipts)
    for (const { member, isOpen } of limits) {
      const { argument } = member;
      if (argument === null || argument === 'tool') continue;
      const sayer = sayerOf(argument, args, tool);
      if (sayer !== 'nobody') by[argument] = sayer;
      else if (!isOpen) unstated.add(argument);
    }
  const said = by['estimated_cost_usd'] === 'tool' ? saidOf(tool, 'estimated_cost_usd', args) : null;
  return {
    ...(Object.keys(by).length > 0 && { stated_by: by }),
    ...(unstated.size > 0 && { unstated: [...unstated] }),
    ...(said !== null && 'values' in said && { cost_usd: said.values[0] as number }),
  };
}

/**
 * Whether a call that does not state what a level limits passes it. `signing`: also a limit of the money of all calls, since who
 * signs does not know what the operator of the verifier says.
 */
export type AllowsUnstated = boolean | 'signing';

/** Whether all that is said keeps to a limit. Several texts are compared like the list of a child, in O(n log n). */
function keepsTo(kind: LimitKind, limit: LimitValue, values: readonly JsonValue[]): boolean {
  if (values.length > 1 && Array.isArray(limit)) return kind.contains(limit, values as readonly string[]);
  return values.every((value) => kind.allows(limit, value));
}

/**
 * Checks a call against the policy of one level, in time linear in the length of the policy's lists. What the operator says
 * counts; what the call states must pass besides. What nobody states is refused where it is limited.
 *
 * @param tool what the operator says of the call's tool
 * @returns what the call breaks, or `null` if it keeps to the policy
 * @example findViolation(readPolicy({ allowed_tools: ['search'] }).limits, { tool: 'delete' })?.member; // 'allowed_tools'
 */
export function findViolation(
  limits: readonly PolicyLimit[],
  args: JsonObject,
  tool: Tool | null = null,
  allowsUnstated: AllowsUnstated = false,
): Violation | null {
  const isSaidElsewhere = (argument: string) => allowsUnstated === 'signing' && argument !== 'tool';
  for (const { member, value: allowed, isOpen } of limits) {
    const { name, kind, argument, requiresArgument } = member;
    if (argument === null) continue;
    const claimed = args[argument];
    if (claimed !== undefined && !kind.allows(allowed, claimed))
      return { member: name, argument, claimed, allowed, by: 'call' };
    const said = tool === null ? null : saidOf(tool, argument, args);
    if (said !== null) {
      const told =
        'found' in said ? said.found : said.values.length === 1 ? said.values[0] : [...said.values];
      const isKept = isOpen || ('values' in said && keepsTo(kind, allowed, said.values));
      if (!isKept) return { member: name, argument, claimed: told, allowed, by: 'tool' };
    } else if (
      claimed === undefined &&
      !isOpen &&
      !(requiresArgument ? isSaidElsewhere(argument) : allowsUnstated)
    )
      return { member: name, argument, claimed, allowed, by: 'nobody' };
  }
  return null;
}
