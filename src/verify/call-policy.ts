import type { JsonObject, JsonValue } from '../protocol/json.js';
import { isAmount, type Policy } from '../protocol/policy.js';
import { coversResource } from './resources.js';

/** The first policy member that a call breaks. */
export interface Violation {
  readonly member: string;
  /** The argument that breaks it, as a name in `args`. */
  readonly argument: string;
  /** The argument's value; `undefined` where it is missing. */
  readonly claimed: JsonValue | undefined;
  readonly allowed: unknown;
}

/**
 * Judges the arguments of a call by one level's policy.
 *
 * @returns what the call breaks, or `null` where it keeps to the policy. Decisions section 3
 * @example findViolation({ allowed_tools: ['search'] }, { tool: 'delete' })?.member; // 'allowed_tools'
 */
export function findViolation(policy: Policy, args: JsonObject): Violation | null {
  const { allowed_tools, max_cost_usd, pii_access, write_access, allowed_resources, allowed_data_classes } =
    policy;
  if (allowed_tools !== undefined && !isAllowedName(allowed_tools, args['tool'])) {
    return violation('allowed_tools', 'tool', policy, args);
  }
  if (max_cost_usd !== undefined) {
    const cost = args['estimated_cost_usd'];
    if (cost !== undefined && !(isAmount(cost) && cost <= max_cost_usd)) {
      return violation('max_cost_usd', 'estimated_cost_usd', policy, args);
    }
  }
  if (pii_access === false && !isForgone(args['pii_access'])) {
    return violation('pii_access', 'pii_access', policy, args);
  }
  if (write_access === false && !isForgone(args['write_access'])) {
    return violation('write_access', 'write_access', policy, args);
  }
  if (allowed_resources !== undefined) {
    const uri = args['resource_uri'];
    if (uri !== undefined && !(typeof uri === 'string' && coversResource(allowed_resources, uri))) {
      return violation('allowed_resources', 'resource_uri', policy, args);
    }
  }
  if (allowed_data_classes !== undefined) {
    const dataClass = args['data_class'];
    if (dataClass !== undefined && !isAllowedName(allowed_data_classes, dataClass)) {
      return violation('allowed_data_classes', 'data_class', policy, args);
    }
  }
  return null;
}

/**
 * One policy that allows a call exactly where every level of a chain does, given that each level is a subset of the
 * one before it. Attenuation makes the leaf's limits the narrowest; only a `false` permission, which a child need not
 * repeat, has to be collected.
 */
export function effectivePolicy(levels: readonly Policy[]): Policy {
  const leaf = levels.at(-1) ?? {};
  const effective: Record<string, unknown> = { ...leaf };
  for (const permission of ['pii_access', 'write_access']) {
    if (levels.some((level) => level[permission] === false)) effective[permission] = false;
  }
  return effective as Policy;
}

function isAllowedName(allowed: readonly string[], name: JsonValue | undefined): boolean {
  return (typeof name === 'string' && allowed.includes(name)) || allowed.includes('*');
}

/** A permission that a level denies may be absent or false; any other value asks for it or cannot be understood. */
function isForgone(argument: JsonValue | undefined): boolean {
  return argument === undefined || argument === false;
}

function violation(member: string, argument: string, policy: Policy, args: JsonObject): Violation {
  return { member, argument, claimed: args[argument], allowed: policy[member] };
}
