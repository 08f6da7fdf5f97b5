import { equalsByJcs } from '../protocol/jcs.js';
import type { JsonValue } from '../protocol/json.js';
import { KNOWN_POLICY_MEMBERS, type Policy } from '../protocol/policy.js';
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
  for (const [member, narrows] of NARROWING) {
    const allowed = own(parent, member);
    if (allowed === undefined) continue;
    const claimed = own(child, member);
    if (!narrows(allowed, claimed)) return { member, claimed, allowed };
  }
  for (const member of Object.keys(parent)) {
    if (KNOWN_POLICY_MEMBERS.has(member)) continue;
    const allowed = own(parent, member);
    const claimed = own(child, member);
    if (claimed === undefined || !equalsByJcs(claimed as JsonValue, allowed as JsonValue)) {
      return { member, claimed, allowed };
    }
  }
  return null;
}

// The types below hold for every policy of a receipt: block A has checked them.
type Narrows = (allowed: unknown, claimed: unknown) => boolean;

const amount: Narrows = (allowed, claimed) =>
  claimed !== undefined && (claimed as number) <= (allowed as number);
const permission: Narrows = (allowed, claimed) => !(allowed === false && claimed === true);
const names: Narrows = (allowed, claimed) => isSubset(allowed as string[], claimed as string[] | undefined);
const resources: Narrows = (allowed, claimed) =>
  (allowed as string[]).includes('*') ||
  (claimed !== undefined &&
    (claimed as string[]).every((entry) => coversResource(allowed as string[], entry)));

const NARROWING: readonly (readonly [string, Narrows])[] = [
  ['allowed_tools', names],
  ['max_cost_usd', amount],
  ['max_calls', amount],
  ['pii_access', permission],
  ['write_access', permission],
  ['allowed_resources', resources],
  ['allowed_data_classes', names],
];

function isSubset(allowed: readonly string[], claimed: readonly string[] | undefined): boolean {
  if (allowed.includes('*')) return true;
  if (claimed === undefined) return false;
  const set = new Set(allowed);
  return claimed.every((name) => set.has(name));
}

function own(policy: Policy, member: string): unknown {
  return Object.hasOwn(policy, member) ? policy[member] : undefined;
}
