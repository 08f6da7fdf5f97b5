import type { JsonObject, JsonValue } from './json.js';
import { MAX_USD, toMicroUsd } from './money.js';
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
  readonly [member: string]: JsonValue | readonly string[] | undefined;
}

/** Maximum number of entries of a list in a policy. */
export const MAX_POLICY_LIST = 4096;

/** The limit that one member of a policy sets. */
export interface Limit {
  /** The member's value in the policy. */
  readonly value: boolean | number | readonly string[];
  /** Whether it allows everything: `*` in a list, `true` for a permission. A child need not repeat it then. */
  readonly isOpen: boolean;
  /** Whether a call may have this argument. An argument of the wrong type is never allowed. */
  allows(argument: JsonValue): boolean;
  /** Whether a child's limit of the same member stays within this one. Only called if this one is not open. */
  contains(child: Limit): boolean;
}

/** A policy member that is evaluated. */
export interface PolicyMember {
  readonly name: string;
  /** The type of its value, in words. */
  readonly expected: string;
  /** The argument of a call that it limits; `null` if no call can break it. */
  readonly argument: string | null;
  /** Whether a call without that argument breaks it, unless it is open. */
  readonly requiresArgument: boolean;
  /** Whether a child may leave it out if its parent sets a limit. The parent's limit then still applies. */
  readonly isInherited: boolean;
  /** The limit that a value sets, or `null` if the value has the wrong type. */
  readonly read: (value: JsonValue) => Limit | null;
}

/** A limit of a policy, and the member that sets it. */
export interface PolicyLimit {
  readonly member: PolicyMember;
  readonly limit: Limit;
}

/** A known policy member whose value has the wrong type. */
export interface PolicyDefect {
  readonly name: string;
  readonly found: JsonValue;
  readonly expected: string;
}

/** Names; `*` stands for any. */
class NameList implements Limit {
  readonly value: readonly string[];
  readonly isOpen: boolean;

  constructor(value: readonly string[]) {
    this.value = value;
    this.isOpen = value.includes('*');
  }

  allows(argument: JsonValue): boolean {
    return typeof argument === 'string' && (this.isOpen || this.value.includes(argument));
  }

  contains(child: Limit): boolean {
    const names = new Set(this.value);
    return child instanceof NameList && child.value.every((name) => names.has(name));
  }
}

/** URIs, `prefix/*` and `*`. */
class ResourceList implements Limit {
  readonly value: readonly string[];
  readonly isOpen: boolean;

  constructor(value: readonly string[]) {
    this.value = value;
    this.isOpen = value.includes('*');
  }

  allows(argument: JsonValue): boolean {
    return typeof argument === 'string' && coversResource(this.value, argument);
  }

  contains(child: Limit): boolean {
    return child instanceof ResourceList && coversEveryEntry(this.value, child.value);
  }
}

/** A number that must not be exceeded. */
class Ceiling implements Limit {
  readonly value: number;
  readonly isOpen = false;

  constructor(value: number) {
    this.value = value;
  }

  allows(argument: JsonValue): boolean {
    return isAmount(argument) && argument <= this.value;
  }

  contains(child: Limit): boolean {
    return child instanceof Ceiling && child.value <= this.value;
  }
}

/** An amount of money that all calls together must not exceed. What other calls used is not known here. */
export class Budget implements Limit {
  readonly value: number;
  readonly isOpen = false;
  /** The amount in micro-dollars, rounded down. */
  readonly microUsd: number;

  constructor(value: number) {
    this.value = value;
    this.microUsd = toMicroUsd(value, 'down');
  }

  allows(argument: JsonValue): boolean {
    return isMoney(argument) && toMicroUsd(argument, 'up') <= this.microUsd;
  }

  contains(child: Limit): boolean {
    return child instanceof Budget && child.value <= this.value;
  }
}

/** A permission, which `false` denies. */
class Permission implements Limit {
  readonly value: boolean;
  readonly isOpen: boolean;

  constructor(value: boolean) {
    this.value = this.isOpen = value;
  }

  allows(argument: JsonValue): boolean {
    // If it is denied, only `false` passes: every other value asks for it, or has the wrong type.
    return this.value || argument === false;
  }

  contains(child: Limit): boolean {
    return child instanceof Permission && !child.value;
  }
}

const readNames = (value: JsonValue) => (isList(value) ? new NameList(value) : null);
const readResources = (value: JsonValue) => (isList(value) ? new ResourceList(value) : null);
const readAmount = (value: JsonValue) => (isAmount(value) ? new Ceiling(value) : null);
const readBudget = (value: JsonValue) => (isMoney(value) ? new Budget(value) : null);
const readCount = (value: JsonValue) => (isCount(value) ? new Ceiling(value) : null);
const readPermission = (value: JsonValue) => (typeof value === 'boolean' ? new Permission(value) : null);

const PERMISSION = {
  expected: 'a boolean',
  requiresArgument: false,
  isInherited: true,
  read: readPermission,
} as const;
const COUNT = {
  expected: 'an integer of at least 0',
  argument: null,
  requiresArgument: false,
  read: readCount,
} as const;
const LIST = { expected: `an array of at most ${MAX_POLICY_LIST} strings`, isInherited: false } as const;

/**
 * The policy members that are evaluated, in the order of evaluation. Reading, attenuation and the check of a call all
 * use these rows.
 */
export const POLICY_MEMBERS = [
  { ...LIST, name: 'allowed_tools', argument: 'tool', requiresArgument: true, read: readNames },
  {
    name: 'max_cost_usd',
    expected: 'a finite number of at least 0',
    argument: 'estimated_cost_usd',
    requiresArgument: false,
    isInherited: false,
    read: readAmount,
  },
  {
    name: 'max_total_cost_usd',
    expected: `a number from 0 to ${MAX_USD}`,
    argument: 'estimated_cost_usd',
    requiresArgument: true,
    isInherited: false,
    read: readBudget,
  },
  { ...COUNT, name: 'max_calls', isInherited: false },
  { ...COUNT, name: 'max_delegations', isInherited: true },
  { ...PERMISSION, name: 'pii_access', argument: 'pii_access' },
  { ...PERMISSION, name: 'write_access', argument: 'write_access' },
  {
    ...LIST,
    name: 'allowed_resources',
    argument: 'resource_uri',
    requiresArgument: false,
    read: readResources,
  },
  {
    ...LIST,
    name: 'allowed_data_classes',
    argument: 'data_class',
    requiresArgument: false,
    read: readNames,
  },
] as const satisfies readonly PolicyMember[];

/** The name of a member that is evaluated. */
export type KnownPolicyMember = (typeof POLICY_MEMBERS)[number]['name'];

/** The names of {@link POLICY_MEMBERS}, in their order. */
export const KNOWN_POLICY_MEMBERS: readonly KnownPolicyMember[] = POLICY_MEMBERS.map(({ name }) => name);

const known: ReadonlySet<string> = new Set(KNOWN_POLICY_MEMBERS);

/** Whether a member of a policy is evaluated. */
export function isKnownMember(name: string): name is KnownPolicyMember {
  return known.has(name);
}

/**
 * Reads the limits of a policy.
 *
 * @returns the limits in the order of {@link POLICY_MEMBERS}, or the first known member that has the wrong type
 */
export function readPolicy(
  policy: JsonObject,
): { limits: PolicyLimit[]; defect?: never } | { defect: PolicyDefect; limits?: never } {
  const limits: PolicyLimit[] = [];
  // The rows have different literal types; the interface is what they share.
  const members: readonly PolicyMember[] = POLICY_MEMBERS;
  for (const member of members) {
    const found = policy[member.name] ?? null;
    if (found === null) continue;
    const limit = member.read(found);
    if (limit === null) return { defect: { name: member.name, found, expected: member.expected } };
    limits.push({ member, limit });
  }
  return { limits };
}

/** The first known member of a policy that has the wrong type, or `null`. */
export function findPolicyTypeDefect(policy: JsonObject): PolicyDefect | null {
  return readPolicy(policy).defect ?? null;
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

function isList(value: JsonValue): value is string[] {
  return (
    Array.isArray(value) && value.length <= MAX_POLICY_LIST && value.every((item) => typeof item === 'string')
  );
}
