import { equalsByJcs, type JsonObject, type JsonValue } from '../protocol/json.js';
import { isKnownMember, readPolicy, type PolicyLimit } from '../protocol/policy.js';

/** The first policy member by which a child would allow more than its parent. */
export interface Escalation {
  readonly member: string;
  /** The child's value; `undefined` if it has none. */
  readonly claimed: unknown;
  /** What the parent allows. */
  readonly allowed: unknown;
}

/** The parts of a policy that {@link findEscalation} compares. */
export interface ReadPolicy {
  readonly limits: readonly PolicyLimit[];
  /** Whether it has members that are not evaluated. */
  readonly hasOtherMembers: boolean;
  /** The whole policy, as it is in the receipt. */
  readonly policy: JsonObject;
}

/**
 * Compares a child's policy with its parent's: each limit must stay or narrow, and what is not evaluated must stay as it
 * is. Lists are compared in O(n log n), other members in the size of their text.
 *
 * @returns where the child escalates, or `null` if it is a subset
 */
export function findEscalation(parent: ReadPolicy, child: ReadPolicy): Escalation | null {
  for (const { member, value: allowed, isOpen } of parent.limits) {
    if (isOpen) continue;
    const claimed = child.limits.find((one) => one.member === member)?.value;
    const isNarrower = claimed === undefined ? member.isInherited : member.kind.contains(allowed, claimed);
    if (!isNarrower) return { member: member.name, claimed, allowed };
  }
  return parent.hasOtherMembers ? findChange(parent.policy, child.policy) : null;
}

/**
 * Compares two policies as they are in receipts; see {@link findEscalation}.
 *
 * @returns `null` also if one of them cannot be read
 * @example findPolicyEscalation({ max_cost_usd: 5 }, { max_cost_usd: 9 })?.member; // 'max_cost_usd'
 */
export function findPolicyEscalation(parent: JsonObject, child: JsonObject): Escalation | null {
  const [above, below] = [readPolicy(parent), readPolicy(child)];
  if (above.defect !== undefined || below.defect !== undefined) return null;
  return findEscalation(
    { limits: above.limits, hasOtherMembers: true, policy: parent },
    { limits: below.limits, hasOtherMembers: true, policy: child },
  );
}

/** The first member that is not evaluated here and differs: a child may not change what it does not understand. */
function findChange(parent: JsonObject, child: JsonObject): Escalation | null {
  for (const [member, allowed] of Object.entries(parent)) {
    if (isKnownMember(member)) continue;
    if (!Object.hasOwn(child, member)) return { member, claimed: undefined, allowed };
    const claimed = child[member] as JsonValue;
    if (!equalsByJcs(claimed, allowed)) return { member, claimed, allowed };
  }
  return null;
}
