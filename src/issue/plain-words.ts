import type { JsonObject, JsonValue } from '../protocol/json.js';
import { KNOWN_POLICY_MEMBERS, type KnownPolicyMember, type Policy } from '../protocol/policy.js';

/**
 * Describes a policy in plain words, with a sentence for each member. Also says what is *not* limited, since people
 * overlook that. Names and values are in JSON quotes. Escape control characters before you print them to a terminal.
 *
 * @example describePolicy({ allowed_tools: ['search'] })[0]; // 'It may use only this tool: "search".'
 */
export function describePolicy(policy: Policy): string[] {
  const sentences = KNOWN_POLICY_MEMBERS.map((member) => WORDS[member](policy));
  for (const [name, value] of Object.entries(policy)) {
    if (Object.hasOwn(WORDS, name) || value === undefined) continue;
    sentences.push(`${quote(name)} is ${quote(value)}: this is for the tool server to enforce.`);
  }
  return sentences;
}

/** Who enforces a limit of all calls together. A tool server does not know what others count. */
const COUNTED = 'which each tool server counts for itself, if it protects against replay';

const WORDS: Readonly<Record<KnownPolicyMember, (policy: Policy) => string>> = {
  allowed_tools: ({ allowed_tools: tools }) => describeList(tools, 'use', 'tool', 'tools'),
  max_cost_usd: ({ max_cost_usd: cost, max_total_cost_usd: total }) =>
    isNothing(cost)
      ? `A call may cost ${isNothing(total) ? 'any amount' : 'as much as all together'}.`
      : `A call that states its cost may cost at most ${cost} US dollars${isNothing(total) ? ', others any amount' : ''}.`,
  max_total_cost_usd: ({ max_total_cost_usd: cost }) =>
    isNothing(cost)
      ? 'All calls together may cost any amount.'
      : `Each call must state its cost, and all together may cost at most ${cost} US dollars, ${COUNTED}.`,
  max_calls: ({ max_calls: calls }) =>
    isNothing(calls) ? 'It may call any number of times.' : `It may call at most ${calls} times, ${COUNTED}.`,
  max_delegations: ({ max_delegations: delegations }) =>
    isNothing(delegations)
      ? 'It may pass this on, and so may those who get it.'
      : delegations === 0
        ? 'It may not pass this on.'
        : delegations === 1
          ? 'It may pass this on, but those who get it may not.'
          : `It may pass this on, from one to the next at most ${delegations} times.`,
  pii_access: ({ pii_access: access }) =>
    access === false
      ? 'A call that says it asks for personal data is refused.'
      : 'It may ask for personal data.',
  write_access: ({ write_access: access }) =>
    access === false ? 'A call that says it changes things is refused.' : 'It may change things.',
  allowed_resources: ({ allowed_resources: resources }) =>
    describeList(resources, 'name', 'resource', 'resources'),
  allowed_data_classes: ({ allowed_data_classes: classes }) =>
    describeList(classes, 'name', 'class of data', 'classes of data'),
};

function describeList(
  entries: readonly string[] | null | undefined,
  verb: string,
  one: string,
  several: string,
): string {
  if (isNothing(entries) || entries.includes('*')) return `It may ${verb} any ${one}.`;
  if (entries.length === 0) return `It may ${verb} no ${one} at all.`;
  return `It may ${verb} only ${entries.length === 1 ? `this ${one}` : `these ${several}`}: ${entries.map(quote).join(', ')}.`;
}

/** Absent, or null, which a verifier reads as absent. */
function isNothing(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

function quote(value: JsonValue | JsonObject | readonly string[]): string {
  return JSON.stringify(value);
}
