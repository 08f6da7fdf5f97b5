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

/** The policy members that are evaluated. */
export const KNOWN_POLICY_MEMBERS = [
  'allowed_tools',
  'max_cost_usd',
  'max_calls',
  'pii_access',
  'write_access',
  'allowed_resources',
  'allowed_data_classes',
] as const;

/** A name of {@link KNOWN_POLICY_MEMBERS}. */
export type KnownPolicyMember = (typeof KNOWN_POLICY_MEMBERS)[number];

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
  return (
    check('allowed_tools', policy['allowed_tools'], isStrings, 'an array of strings') ??
    check('max_cost_usd', policy['max_cost_usd'], isAmount, 'a finite number of at least 0') ??
    check('max_calls', policy['max_calls'], isCount, 'an integer of at least 0') ??
    check('pii_access', policy['pii_access'], isBoolean, 'a boolean') ??
    check('write_access', policy['write_access'], isBoolean, 'a boolean') ??
    check('allowed_resources', policy['allowed_resources'], isStrings, 'an array of strings') ??
    check('allowed_data_classes', policy['allowed_data_classes'], isStrings, 'an array of strings')
  );
}

function check(
  name: KnownPolicyMember,
  found: JsonValue | undefined,
  test: (value: JsonValue) => boolean,
  expected: string,
): PolicyDefect | null {
  return found === undefined || test(found) ? null : { name, found, expected };
}

function isBoolean(value: JsonValue): boolean {
  return typeof value === 'boolean';
}

function isStrings(value: JsonValue): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}
