import type { JsonObject, JsonValue } from '../protocol/json.js';
import { KNOWN_POLICY_MEMBERS, type KnownPolicyMember, type Policy } from '../protocol/policy.js';
import { IssueError } from './issue-error.js';
import { nearestName } from './nearest-name.js';

/** A policy member of your own, for your tool server to enforce: its name has a `:` or a `.` in it. */
export type NamespacedMember = `${string}:${string}` | `${string}.${string}`;

/**
 * The policy of a receipt that is being issued. Absent members are no limit at this level. A verifier ignores a member that
 * it does not know, so a misspelt limit would allow everything: only the known members are accepted here, and names
 * with a namespace. `docs/policy.md` explains each.
 *
 * @example const policy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 5, 'acme:tier': 'gold' };
 */
export type IssuedPolicy = { readonly [Member in KnownPolicyMember]?: NonNullable<Policy[Member]> } & {
  readonly [member: NamespacedMember]: JsonValue;
};

/**
 * Refuses the members of a policy that a verifier would ignore.
 *
 * @param parent the parent's policy: what it holds a child must repeat, whoever named it
 * @throws IssueError `INVALID_POLICY`
 */
export function requireKnownMembers(policy: object, parent: JsonObject | Policy = {}): void {
  for (const [name, value] of Object.entries(policy)) {
    if (isKnownMember(name)) {
      // A verifier reads null as "no limit", which is seldom what was meant.
      if (value === undefined || value === null) {
        throw new IssueError(
          'INVALID_POLICY',
          `policy.${name} is ${String(value)}, which limits nothing; expected a limit`,
          `give it a value, or leave it out where ${name} is not to be limited`,
        );
      }
    } else if (!hasNamespace(name) && !Object.hasOwn(parent, name)) {
      throw unknownMember(name);
    }
  }
}

/** Whether a member's name says whose it is, such as `acme:tier` or `example.com/region`. */
function hasNamespace(name: string): name is NamespacedMember {
  return name.includes(':') || name.includes('.');
}

const known: ReadonlySet<string> = new Set(KNOWN_POLICY_MEMBERS);

/** Whether a member is one that verifiers evaluate. */
export function isKnownMember(name: string): name is KnownPolicyMember {
  return known.has(name);
}

function unknownMember(name: string): IssueError {
  const near = nearestName(name, KNOWN_POLICY_MEMBERS);
  const shown = JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name);
  return new IssueError(
    'INVALID_POLICY',
    `the policy has a member ${shown}, which no verifier knows, so it would limit nothing` +
      (near === null ? '' : `; did you mean ${near}?`),
    `the members are ${KNOWN_POLICY_MEMBERS.join(', ')}; one of your own has a namespace, such as "acme:region"`,
  );
}
