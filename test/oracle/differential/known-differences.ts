import { member, readJson, type Json, type JsonObject } from '../json.js';
import type { Request } from './request.js';
import type { Difference } from './run.js';

/**
 * Differences that are known and accepted for now, each with its reason. A run counts them and does not fail over them.
 * Empty when the code does what the specification says.
 */
export const knownDifferences: {
  readonly reason: string;
  readonly applies: (difference: Difference) => boolean;
}[] = [
  {
    reason: 'null in an optional place is refused; it should count as absence (decisions, section 2)',
    applies: ({ request, actual }) =>
      actual === 'MALFORMED_RECEIPT' && payloadsOf(request).some(hasOptionalNull),
  },
  {
    reason:
      'an argument of the wrong type passes where a level that limits it has `*` (decisions, section 3)',
    applies: ({ request, expected, actual }) =>
      expected === 'POLICY_VIOLATION' &&
      !/^(MALFORMED|POLICY)/.test(actual) &&
      hasOddArgument(payloadsOf(request), ['tool', 'data_class']),
  },
  {
    reason:
      'a resource with a control character or a backslash is covered by a prefix (decisions, section 3)',
    applies: ({ request, expected }) =>
      expected.startsWith('POLICY_') && payloadsOf(request).some((claims) => hasOddResource(claims)),
  },
  {
    reason: 'the cache forgets an inherited allowed_resources of ["*"] (decisions, section 3)',
    applies: ({ request, expected, actual, target }) =>
      expected === 'POLICY_VIOLATION' &&
      target.receiptCacheBytes !== 0 &&
      !/^(MALFORMED|POLICY)/.test(actual) &&
      hasOddArgument(payloadsOf(request), ['resource_uri']),
  },
  {
    reason: 'policy lists of more than 4,096 entries are not malformed (decisions, section 3)',
    applies: ({ request, expected }) =>
      expected === 'MALFORMED_RECEIPT' && payloadsOf(request).some(hasLongList),
  },
  {
    reason: 'details are not given yet (decisions, section 2)',
    applies: ({ expected, actual }) => expected.includes(' details {') && expected.startsWith(actual),
  },
];

function hasOddResource(claims: JsonObject): boolean {
  const [args, policy] = [member(claims, 'args'), member(claims, 'policy')];
  const list = policy?.kind === 'object' ? member(policy, 'allowed_resources') : undefined;
  const uri = args?.kind === 'object' ? member(args, 'resource_uri') : undefined;
  return [...(list?.kind === 'array' ? list.items : []), uri].some(
    (item) => item?.kind === 'string' && /[\u0000-\u0020\u007f\\]/.test(item.value),
  );
}

function hasLongList(claims: JsonObject): boolean {
  const policy = member(claims, 'policy');
  if (policy?.kind !== 'object') return false;
  return policy.members.some(([, value]) => value.kind === 'array' && value.items.length > 4096);
}

function hasOddArgument(payloads: readonly JsonObject[], names: readonly string[]): boolean {
  const args = payloads.map((claims) => member(claims, 'args')).find((value) => value?.kind === 'object');
  if (args?.kind !== 'object') return false;
  return names.some((name) => !['string', undefined].includes(member(args, name)?.kind));
}

/**
 * Whether the harness writes on each verdict that it was given, as a careless handler would; no later verdict may change by it.
 * Off for now: verdicts share their objects with the cache (`leaf_policy`), and every later difference would be that one.
 */
export const mayScribble: boolean = false;

/** Makes known differences count like any other, those whose reason has this word: that a run finds them shows that it looks. */
export function forgetKnownDifferences(word: string): void {
  const kept = knownDifferences.filter(({ reason }) => !reason.includes(word));
  knownDifferences.splice(0, knownDifferences.length, ...kept);
}

export function knownReason(difference: Difference): string | undefined {
  return knownDifferences.find(({ applies }) => applies(difference))?.reason;
}

const OPTIONAL = ['drs_consent', 'drs_root_type', 'drs_status_list_index'];
const MEMBERS = [
  'allowed_tools',
  'max_cost_usd',
  'max_calls',
  'pii_access',
  'write_access',
  'allowed_resources',
  'allowed_data_classes',
];

function hasOptionalNull(claims: JsonObject): boolean {
  const isNull = (json: Json | undefined) => json?.kind === 'null';
  const policy = member(claims, 'policy');
  return (
    OPTIONAL.some((name) => isNull(member(claims, name))) ||
    (policy?.kind === 'object' && MEMBERS.some((name) => isNull(member(policy, name))))
  );
}

/** The claims of all tokens of a request that can be read at all. */
export function payloadsOf(request: Request): JsonObject[] {
  const bundle = readJson(request.bundle);
  if (bundle?.kind !== 'object') return [];
  const list = member(bundle, 'receipts');
  const tokens = [...(list?.kind === 'array' ? list.items : []), member(bundle, 'invocation')];
  return tokens.flatMap((token) => {
    const text =
      token?.kind === 'string' ? Buffer.from(token.value.split('.')[1] ?? '', 'base64url').toString() : '';
    const json = readJson(text);
    return json?.kind === 'object' ? [json] : [];
  });
}
