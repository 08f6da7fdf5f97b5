import type { JsonObject, JsonValue } from '../protocol/json.js';
import { isKnownMember, KNOWN_POLICY_MEMBERS } from '../protocol/policy.js';
import type { KnownPolicyMember, Policy } from '../protocol/policy.js';
import { IssueError } from './issue-error.js';

/** A policy member of your own, which your tool server enforces. Its name contains a `:` or a `.`. */
export type NamespacedMember = `${string}:${string}` | `${string}.${string}`;

/**
 * The policy of a receipt to issue; an absent member is no limit at this level (docs/policy.md). Verifiers ignore unknown members, so
 * a misspelt limit would allow everything: only known members and names with a namespace are accepted here.
 *
 * @example const policy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 5, 'acme:tier': 'gold' };
 */
export type IssuedPolicy = { readonly [Member in KnownPolicyMember]?: NonNullable<Policy[Member]> } & {
  readonly [member: NamespacedMember]: JsonValue;
};

/**
 * Refuses the members of a policy that a verifier would ignore.
 *
 * @param parent the parent's policy. The child must repeat all its members, so these are accepted too
 * @throws IssueError `INVALID_POLICY`
 */
export function requireKnownMembers(policy: object, parent: JsonObject | Policy = {}): void {
  for (const [name, value] of Object.entries(policy)) {
    if (isKnownMember(name)) {
      // Elsewhere an empty list is read as "no limit".
      if (name === 'allowed_tools' && Array.isArray(value) && value.length === 0)
        throw new IssueError(
          'INVALID_POLICY',
          'policy.allowed_tools is [], which some verifiers read as no limit; expected the names of tools',
          'name the tools, or issue nothing',
        );
      // A verifier reads null as "no limit", which is rarely intended.
      if (value !== undefined && value !== null) continue;
      throw new IssueError(
        'INVALID_POLICY',
        `policy.${name} is ${String(value)}, which limits nothing; expected a limit`,
        `give it a value, or leave it out if ${name} is not to be limited`,
      );
    }
    // A name with a namespace, such as `acme:tier` or `example.com/region`, is for the tool server.
    if (/[:.]/.test(name) || Object.hasOwn(parent, name)) continue;
    const shown = JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name);
    throw new IssueError(
      'INVALID_POLICY',
      `the policy has a member ${shown}, which no verifier knows, so it would limit nothing`,
      `the members are ${KNOWN_POLICY_MEMBERS.join(', ')}; one of your own has a namespace, such as "acme:region"`,
    );
  }
}
