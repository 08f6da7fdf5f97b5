import type { JsonObject, JsonValue } from '../protocol/json.js';
import type { PolicyLimit } from '../protocol/policy.js';

/** The first policy member that a call breaks. */
export interface Violation {
  readonly member: string;
  /** The argument that breaks it, as a name in `args`. */
  readonly argument: string;
  /** The argument's value; `undefined` if it is missing. */
  readonly claimed: JsonValue | undefined;
  readonly allowed: unknown;
}

/**
 * Checks the arguments of a call against the policy of one level, in time linear in the length of the policy's lists.
 *
 * @returns what the call breaks, or `null` if it keeps to the policy
 * @example findViolation(readPolicy({ allowed_tools: ['search'] }).limits, { tool: 'delete' })?.member; // 'allowed_tools'
 */
export function findViolation(limits: readonly PolicyLimit[], args: JsonObject): Violation | null {
  for (const { member, limit } of limits) {
    const { name, argument, requiresArgument } = member;
    if (argument === null) continue;
    const claimed = args[argument];
    const isKept = claimed === undefined ? limit.isOpen || !requiresArgument : limit.allows(claimed);
    if (!isKept) return { member: name, argument, claimed, allowed: limit.value };
  }
  return null;
}
