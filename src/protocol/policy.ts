import type { JsonObject, JsonValue } from './json.js';
import { MAX_USD, toMicroUsd, toUsd } from './money.js';
import { coversEveryEntry, coversResource } from './resources.js';

/**
 * What a receipt allows. Known members limit the call and must narrow from parent to child, see `POLICY_MEMBERS`;
 * any other member is carried along for the tool server. `null` in a known member is the same as absence.
 */
export interface Policy {
  readonly allowed_tools?: readonly string[] | null;
  /** US dollars a call. */
  readonly max_cost_usd?: number | null;
  /** US dollars of all calls together. */
  readonly max_total_cost_usd?: number | null;
  readonly max_calls?: number | null;
  /** How many receipts may follow. */
  readonly max_delegations?: number | null;
  readonly pii_access?: boolean | null;
  readonly write_access?: boolean | null;
  readonly allowed_resources?: readonly string[] | null;
  readonly allowed_data_classes?: readonly string[] | null;
  /** Tools whose calls each wait for a person's yes. */
  readonly approve_tools?: readonly string[] | null;
  readonly [member: string]: JsonValue | readonly string[] | undefined;
}

export const MAX_POLICY_LIST = 4096;

/** The value of a member that limits; which type it has, its kind says. */
export type LimitValue = boolean | number | readonly string[];

/** What the values of some members are, and how they limit. Only `accepts` may get a value of another type. */
export interface LimitKind {
  /** The type of its values, in words. */
  readonly expected: string;
  accepts(value: JsonValue): boolean;
  /** Whether a value allows everything: `*` in a list, `true` for a permission. A child need not repeat it then. */
  isOpen(value: LimitValue): boolean;
  /** Whether a call may have this argument. An argument of the wrong type is never allowed. */
  allows(value: LimitValue, argument: JsonValue): boolean;
  /** Whether a child's value stays within its parent's. Only called if the parent's is not open. */
  contains(value: LimitValue, child: LimitValue): boolean;
}

export interface PolicyMember {
  readonly name: string;
  readonly kind: LimitKind;
  /** The argument of a call that it limits; `null` if no call can break it. */
  readonly argument: string | null;
  /** Whether a call without that argument breaks it, unless it is open. */
  readonly requiresArgument: boolean;
  /** Whether a child may leave it out if its parent sets a limit. The parent's limit then still applies. */
  readonly isInherited: boolean;
}

/** A limit of a policy, and the member that sets it. */
export interface PolicyLimit {
  readonly member: PolicyMember;
  readonly value: LimitValue;
  /** See {@link LimitKind.isOpen}. */
  readonly isOpen: boolean;
}

const LIST = {
  expected: `an array of at most ${MAX_POLICY_LIST} strings`,
  accepts: (value: JsonValue) =>
    Array.isArray(value) &&
    value.length <= MAX_POLICY_LIST &&
    value.every((item) => typeof item === 'string'),
  isOpen: (list: readonly string[]) => list.includes('*'),
};

/** Names; `*` stands for any. */
const NAMES: LimitKind = {
  ...LIST,
  allows: (names: readonly string[], argument) =>
    typeof argument === 'string' && (names.includes(argument) || names.includes('*')),
  contains: (names: readonly string[], child: readonly string[]) => {
    const all = new Set(names);
    return child.every((name) => all.has(name));
  },
};

/** URIs, `prefix/*` and `*`. */
const RESOURCES: LimitKind = {
  ...LIST,
  allows: (list: readonly string[], argument) =>
    typeof argument === 'string' && coversResource(list, argument),
  contains: coversEveryEntry,
};

/** Tools whose calls wait for a yes; `*` stands for any. What it allows needs none, so a child may add names, and drop none. */
const ASKED: LimitKind = {
  ...LIST,
  isOpen: (tools: readonly string[]) => tools.length === 0,
  allows: (tools: readonly string[], tool) => !asksFor(tools, tool),
  contains: (tools: readonly string[], child: readonly string[]) => NAMES.contains(child, tools),
};

/** Whether a list names a tool, or the call may be of one that it names. */
export function asksFor(tools: readonly string[], tool: JsonValue | undefined): boolean {
  if (typeof tool !== 'string') return tools.length > 0;
  return tools.includes(tool) || tools.includes('*');
}

/** A number that must not be exceeded. */
const CEILING: LimitKind = {
  expected: 'a finite number of at least 0',
  accepts: isAmount,
  isOpen: () => false,
  allows: (ceiling: number, argument) => isAmount(argument) && argument <= ceiling,
  contains: (ceiling: number, child: number) => child <= ceiling,
};

const COUNT: LimitKind = { ...CEILING, expected: 'an integer of at least 0', accepts: isCount };

/** An amount of money that all calls together must not exceed. What other calls used is not known here. */
const BUDGET: LimitKind = {
  ...CEILING,
  expected: `a number from 0 to ${MAX_USD}`,
  accepts: isMoney,
  // Whole micro-dollars are compared: at most 10^15, which are exact in dollars, too.
  allows: (budget: number, argument) => isMoney(argument) && toUsd(toMicroUsd(argument, 'up')) <= budget,
};

/** A permission, which `false` denies. */
const PERMISSION: LimitKind = {
  expected: 'a boolean',
  accepts: (value) => typeof value === 'boolean',
  isOpen: (isAllowed: boolean) => isAllowed,
  // If it is denied, only `false` passes: every other value asks for it, or has the wrong type.
  allows: (isAllowed: boolean, argument) => isAllowed || argument === false,
  contains: (_, isAllowed) => isAllowed === false,
};

function row<const Name extends string>(
  name: Name,
  kind: LimitKind,
  argument: string | null,
  ...rules: readonly ('argument required' | 'inherited')[]
): PolicyMember & { readonly name: Name } {
  const requiresArgument = rules.includes('argument required');
  return { name, kind, argument, requiresArgument, isInherited: rules.includes('inherited') };
}

/** The policy members that are evaluated, in that order. Reading, attenuation and the check of a call all use these rows. */
export const POLICY_MEMBERS = [
  row('allowed_tools', NAMES, 'tool', 'argument required'),
  row('max_cost_usd', CEILING, 'estimated_cost_usd'),
  row('max_total_cost_usd', BUDGET, 'estimated_cost_usd', 'argument required'),
  row('max_calls', COUNT, null),
  row('max_delegations', COUNT, null, 'inherited'),
  row('pii_access', PERMISSION, 'pii_access', 'inherited'),
  row('write_access', PERMISSION, 'write_access', 'inherited'),
  row('allowed_resources', RESOURCES, 'resource_uri'),
  row('allowed_data_classes', NAMES, 'data_class'),
  row('approve_tools', ASKED, null),
] as const;

export type KnownPolicyMember = (typeof POLICY_MEMBERS)[number]['name'];

export const KNOWN_POLICY_MEMBERS: readonly KnownPolicyMember[] = POLICY_MEMBERS.map(({ name }) => name);

export function isKnownMember(name: string): name is KnownPolicyMember {
  return (KNOWN_POLICY_MEMBERS as readonly string[]).includes(name);
}

/**
 * Reads the limits of a policy.
 *
 * @returns the limits in the order of {@link POLICY_MEMBERS}, or the first known member that has the wrong type
 */
export function readPolicy(policy: JsonObject) {
  const limits: PolicyLimit[] = [];
  for (const member of POLICY_MEMBERS) {
    const { name, kind } = member;
    const found = policy[name] ?? null;
    if (found === null) continue;
    if (!kind.accepts(found)) return { defect: { name, found, expected: kind.expected } };
    const value = found as LimitValue;
    limits.push({ member, value, isOpen: kind.isOpen(value) });
  }
  return { limits };
}

/** Whether a value is an integer from 0 to 2^53-1. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether a value is a finite number of at least 0. */
export function isAmount(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0;
}

/** Whether a value is an amount of money that can be counted. */
export function isMoney(value: unknown): value is number {
  return isAmount(value) && value <= MAX_USD;
}
