import type { JsonObject, JsonValue } from './json.js';

/**
 * What a receipt allows. Known members limit the call and must narrow from parent to child (decisions section 3);
 * any other member is carried along for the tool server.
 */
export interface Policy {
  readonly allowed_tools?: readonly string[];
  /** US dollars a call. */
  readonly max_cost_usd?: number;
  readonly max_calls?: number;
  readonly pii_access?: boolean;
  readonly write_access?: boolean;
  readonly allowed_resources?: readonly string[];
  readonly allowed_data_classes?: readonly string[];
  readonly [member: string]: JsonValue | readonly string[] | undefined;
}

/** A known policy member whose value has the wrong type. */
export interface PolicyDefect {
  readonly name: string;
  readonly found: JsonValue;
  readonly expected: string;
}

const isBoolean = (value: JsonValue) => typeof value === 'boolean';
const isStrings = (value: JsonValue) =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

const KNOWN_MEMBERS: readonly (readonly [string, string, (value: JsonValue) => boolean])[] = [
  ['allowed_tools', 'an array of strings', isStrings],
  ['max_cost_usd', 'a finite number of at least 0', isAmount],
  ['max_calls', 'an integer of at least 0', isCount],
  ['pii_access', 'a boolean', isBoolean],
  ['write_access', 'a boolean', isBoolean],
  ['allowed_resources', 'an array of strings', isStrings],
  ['allowed_data_classes', 'an array of strings', isStrings],
];

/** The names of the policy members that are evaluated. */
export const KNOWN_POLICY_MEMBERS: ReadonlySet<string> = new Set(KNOWN_MEMBERS.map(([name]) => name));

/** Whether a value is an integer from 0 to 2^53-1. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether a value is a finite number of at least 0. */
export function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

/** The first known member of a policy that has the wrong type, or `null`. */
export function findPolicyTypeDefect(policy: JsonObject): PolicyDefect | null {
  for (const [name, expected, test] of KNOWN_MEMBERS) {
    if (!Object.hasOwn(policy, name)) continue;
    const found = policy[name] as JsonValue;
    if (!test(found)) return { name, found, expected };
  }
  return null;
}
