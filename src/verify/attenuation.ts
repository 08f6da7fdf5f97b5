import { equalsByJcs } from '../protocol/jcs.js';
import type { JsonValue } from '../protocol/json.js';
import { KNOWN_POLICY_MEMBERS, type KnownPolicyMember, type Policy } from '../protocol/policy.js';
import { coversResource } from './resources.js';

/** The first policy member by which a child would allow more than its parent. */
export interface Escalation {
  readonly member: string;
  /** The child's value; `undefined` where it has none. */
  readonly claimed: unknown;
  /** What the parent allows. */
  readonly allowed: unknown;
}

/**
 * Compares a child policy with its parent's: each limit must stay or narrow.
 *
 * @returns where the child escalates, or `null` where it is a subset. Decisions section 3
 * @example findEscalation({ max_cost_usd: 5 }, { max_cost_usd: 9 })?.member; // 'max_cost_usd'
 */
export function findEscalation(parent: Policy, child: Policy): Escalation | null {
  return (
    compare('allowed_tools', parent.allowed_tools, child.allowed_tools, isNameSubset) ??
    compare('max_cost_usd', parent.max_cost_usd, child.max_cost_usd, isAtMost) ??
    compare('max_calls', parent.max_calls, child.max_calls, isAtMost) ??
    compare('pii_access', parent.pii_access, child.pii_access, isNotRegained) ??
    compare('write_access', parent.write_access, child.write_access, isNotRegained) ??
    compare('allowed_resources', parent.allowed_resources, child.allowed_resources, isResourceSubset) ??
    compare('allowed_data_classes', parent.allowed_data_classes, child.allowed_data_classes, isNameSubset) ??
    findChange(parent, child)
  );
}

function compare<T>(
  member: KnownPolicyMember,
  allowed: T | undefined,
  claimed: T | undefined,
  narrows: (allowed: T, claimed: T | undefined) => boolean,
): Escalation | null {
  return allowed === undefined || narrows(allowed, claimed) ? null : { member, claimed, allowed };
}

/** The first member that is not evaluated here and differs: a child may not change what it does not understand. */
function findChange(parent: Policy, child: Policy): Escalation | null {
  for (const member in parent) {
    if (known.has(member) || !Object.hasOwn(parent, member)) continue;
    const allowed = parent[member];
    const claimed = Object.hasOwn(child, member) ? child[member] : undefined;
    if (claimed === undefined || !equalsByJcs(claimed as JsonValue, allowed as JsonValue)) {
      return { member, claimed, allowed };
    }
  }
  return null;
}

const known: ReadonlySet<string> = new Set(KNOWN_POLICY_MEMBERS);

function isAtMost(allowed: number, claimed: number | undefined): boolean {
  return claimed !== undefined && claimed <= allowed;
}

function isNotRegained(allowed: boolean, claimed: boolean | undefined): boolean {
  return allowed || claimed !== true;
}

function isNameSubset(allowed: readonly string[], claimed: readonly string[] | undefined): boolean {
  if (allowed.includes('*')) return true;
  if (claimed === undefined) return false;
  if (allowed.length <= FEW) return claimed.every((name) => allowed.includes(name));
  const set = new Set(allowed);
  return claimed.every((name) => set.has(name));
}

// Up to here a search costs less than a set of which it would be spared.
const FEW = 16;

function isResourceSubset(allowed: readonly string[], claimed: readonly string[] | undefined): boolean {
  if (allowed.includes('*')) return true;
  return claimed?.every((entry) => coversResource(allowed, entry)) ?? false;
}
