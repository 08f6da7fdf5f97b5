import type { JsonObject } from '../protocol/json.js';
import type { Tool } from '../verify/tools.js';
import { KNOWN_POLICY_MEMBERS, readPolicy, type KnownPolicyMember, type Policy } from '../protocol/policy.js';

/** What a policy allows, in plain words: each completes the sentence that the name of the member begins. */
export interface PlainPolicy {
  readonly may: readonly string[];
  readonly mayNot: readonly string[];
  /** When somebody is asked first. */
  readonly asks: readonly string[];
  /** What the tool server is told, to enforce itself. */
  readonly toldToServer: readonly string[];
}

/**
 * Describes a policy in plain words: what the delegate may and may not do. Also says what is *not* limited, since people
 * overlook that. Names and values are in JSON quotes. Escape control characters before you print them to a terminal.
 *
 * @example describePolicy({ allowed_tools: ['search'] }).may[0]; // 'use only this tool: "search"'
 */
export function describePolicy(policy: Policy): PlainPolicy {
  const words = KNOWN_POLICY_MEMBERS.map((member) => WORDS[member](policy));
  const { limits = [] } = readPolicy(policy as JsonObject);
  const stated = limits.flatMap(({ member, isOpen }) =>
    isOpen ? [] : (ARGUMENTS.get(member.argument)?.stated ?? []),
  );
  const unstated = [...new Set(stated)].join(', ');
  return {
    may: words.filter((may) => typeof may === 'string'),
    mayNot: [
      ...words.flatMap((word) => (typeof word === 'object' && 'mayNot' in word ? word.mayNot : [])),
      ...(unstated === ''
        ? []
        : [`make a call that does not say ${unstated}, unless the tool's operator does`]),
    ],
    asks: words.flatMap((word) => (typeof word === 'object' && 'asks' in word ? word.asks : [])),
    toldToServer: Object.entries(policy).flatMap(([name, value]) =>
      Object.hasOwn(WORDS, name) || value === undefined
        ? []
        : `${JSON.stringify(name)} is ${JSON.stringify(value)}`,
    ),
  };
}

/**
 * The policy of the last receipt, with what holds for it although it does not repeat it.
 *
 * @param policies root first
 */
export function policyInForce(policies: readonly Policy[]): Policy {
  const isDenied = (name: 'pii_access' | 'write_access') => policies.some((policy) => policy[name] === false);
  const left = policies.flatMap(({ max_delegations: most }, at) =>
    typeof most === 'number' ? [Math.max(0, most - (policies.length - 1 - at))] : [],
  );
  return {
    ...policies.at(-1),
    ...(isDenied('pii_access') && { pii_access: false }),
    ...(isDenied('write_access') && { write_access: false }),
    ...(left.length > 0 && { max_delegations: Math.min(...left) }),
  };
}

/**
 * Describes what an operator says of a tool. Names and values are in JSON quotes.
 *
 * @example describeTool(tools.of('transfer')); // ['costs what "amount" says', 'changes things: yes']
 */
export function describeTool({ facts }: Tool): string[] {
  return [...facts].map(([name, fact]) => {
    const words = ARGUMENTS.get(name)?.does ?? name;
    if ('argument' in fact) {
      const says = `what ${JSON.stringify(fact.argument)} says`;
      return `${words} ${fact.before === '' ? says : `${says}, after ${JSON.stringify(fact.before)}`}`;
    }
    if (typeof fact.value === 'boolean') return `${words} ${fact.value ? 'yes' : 'no'}`;
    return `${words} ${JSON.stringify(fact.value)}${name === 'estimated_cost_usd' ? ' US dollars' : ''}`;
  });
}

/** What is said of an argument that policies limit: of a call that states it, and of a tool for which an operator does. */
const ARGUMENTS: ReadonlyMap<string | null, { readonly stated: string; readonly does: string }> = new Map([
  ['estimated_cost_usd', { stated: 'what it costs', does: 'costs' }],
  ['pii_access', { stated: 'whether it takes personal data', does: 'takes personal data:' }],
  ['write_access', { stated: 'whether it changes things', does: 'changes things:' }],
  ['resource_uri', { stated: 'its resource', does: 'has as its resource' }],
  ['data_class', { stated: 'its class of data', does: 'has as its class of data' }],
]);

const times = (count: number) => (count === 1 ? 'once' : `${count} times`);
/** Who enforces a limit of all calls together. A tool server does not know what others count. */
const COUNTED = 'which each tool server counts for itself, if it protects against replay';

/** What it allows, what it forbids, or when it asks. */
type Words = string | { readonly mayNot: string } | { readonly asks: readonly string[] };

const WORDS: Readonly<Record<KnownPolicyMember, (policy: Policy) => Words>> = {
  allowed_tools: ({ allowed_tools: tools }) => describeList(tools, 'use', 'tool', 'tools'),
  max_cost_usd: ({ max_cost_usd: cost, max_total_cost_usd: total }) =>
    isNothing(cost)
      ? `make calls that cost ${isNothing(total) ? 'any amount' : 'as much as all together'}`
      : `make calls that cost at most ${cost} US dollar${cost === 1 ? '' : 's'}`,
  max_total_cost_usd: ({ max_total_cost_usd: cost }) =>
    isNothing(cost)
      ? 'spend any amount in all'
      : `spend at most ${cost} US dollar${cost === 1 ? '' : 's'} in all, ${COUNTED}`,
  max_calls: ({ max_calls: calls }) =>
    isNothing(calls) ? 'call any number of times' : `call at most ${times(calls)}, ${COUNTED}`,
  max_delegations: ({ max_delegations: delegations }) => {
    if (isNothing(delegations)) return 'pass this on, and so may those who get it';
    if (delegations === 0) return { mayNot: 'pass this on' };
    if (delegations === 1) return 'pass this on, but those who get it may not';
    return `pass this on, from one to the next at most ${delegations} times`;
  },
  pii_access: ({ pii_access: access }) => describePermission(access, 'ask for personal data'),
  write_access: ({ write_access: access }) => describePermission(access, 'change things'),
  allowed_resources: ({ allowed_resources: list }) => describeList(list, 'name', 'resource', 'resources'),
  allowed_data_classes: ({ allowed_data_classes: list }) =>
    describeList(list, 'name', 'class of data', 'classes of data'),
  approve_tools: ({ approve_tools: tools }) => {
    if (isNothing(tools) || tools.length === 0) return { asks: [] };
    if (tools.includes('*')) return { asks: ['before each call'] };
    return { asks: [`before each call of ${tools.map((tool) => JSON.stringify(tool)).join(', ')}`] };
  },
};

function describePermission(access: boolean | null | undefined, what: string): Words {
  return access === false ? { mayNot: what } : what;
}

function describeList(
  entries: readonly string[] | null | undefined,
  verb: string,
  one: string,
  several: string,
): Words {
  if (isNothing(entries) || entries.includes('*')) return `${verb} any ${one}`;
  if (entries.length === 0) return { mayNot: `${verb} any ${one} at all` };
  const these = entries.length === 1 ? `this ${one}` : `these ${several}`;
  return `${verb} only ${these}: ${entries.map((entry) => JSON.stringify(entry)).join(', ')}`;
}

/** Absent, or null, which a verifier reads as absent. */
function isNothing(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}
