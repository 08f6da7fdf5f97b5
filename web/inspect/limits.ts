import { isJsonObject, type JsonValue } from '../../src/protocol/json.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { toUsd } from '../../src/protocol/money.js';
import { isKnownMember, type PolicyLimit, type PolicyMember } from '../../src/protocol/policy.js';
import type { LocalRevocation } from '../../src/revocation/entry.js';
import { limitsOf } from '../../src/verify/limits.js';
import { numberClaim, textClaim, type Token } from './decode.js';
import type { Settings } from './inspect.js';

/** What one level of a chain allows by one member, beside the level above. */
export type Grant = { readonly name: string; readonly label: string; readonly isChanged: boolean } & (
  | { readonly kind: 'list'; readonly kept: readonly string[]; readonly dropped: readonly string[] }
  /** `share` of the largest value in the chain; `before` is the share above. */
  | { readonly kind: 'number'; readonly value: number; readonly share: number; readonly before: number }
  | { readonly kind: 'flag'; readonly value: boolean }
  /** Not evaluated: for the tool server. */
  | { readonly kind: 'other'; readonly text: string }
);

/** What each level allows, as far as its policy can be read. */
export function grantsOf(levels: readonly Token[]): Grant[][] {
  const largest = new Map<string, number>();
  for (const { limits } of levels)
    for (const { member, value } of limits)
      if (typeof value === 'number') largest.set(member.name, Math.max(value, largest.get(member.name) ?? 0));
  let above = new Map<string, PolicyLimit>();
  return levels.map(({ limits, claims }, index) => {
    const own = new Map(limits.map((limit) => [limit.member.name, limit]));
    const grants = limits.map((limit) => grantOf(limit, above.get(limit.member.name), index === 0, largest));
    // What a level leaves out still binds it where the table says so.
    above = new Map([
      ...[...above].filter(([, { member }]: [string, { member: PolicyMember }]) => member.isInherited),
      ...own,
    ]);
    return [...grants, ...othersOf(claims['policy'])];
  });
}

function grantOf(
  { member: { name }, value }: PolicyLimit,
  before: PolicyLimit | undefined,
  isRoot: boolean,
  largest: ReadonlyMap<string, number>,
): Grant {
  const old = before?.value;
  const base = { name, label: labelOf(name) };
  if (typeof value === 'boolean') return { ...base, kind: 'flag', value, isChanged: isRoot || old !== value };
  if (typeof value === 'number') {
    const most = largest.get(name) ?? 0;
    const share = (of: number) => (most === 0 ? 0 : of / most);
    const isChanged = isRoot || old !== value;
    return {
      ...base,
      kind: 'number',
      value,
      share: share(value),
      before: share(typeof old === 'number' ? old : most),
      isChanged,
    };
  }
  const kept = [...value];
  const dropped = Array.isArray(old)
    ? (old as string[]).filter((item) => !kept.includes(item) && item !== '*')
    : [];
  return {
    ...base,
    kind: 'list',
    kept,
    dropped,
    isChanged: isRoot || old === undefined || dropped.length > 0,
  };
}

function othersOf(policy: JsonValue | undefined): Grant[] {
  if (!isJsonObject(policy)) return [];
  return Object.entries(policy)
    .filter(([name, value]) => !isKnownMember(name) && value !== null)
    .map(([name, value]) => ({
      name,
      label: name,
      kind: 'other',
      text: JSON.stringify(value),
      isChanged: false,
    }));
}

/** `allowed_tools` is "tools", `max_cost_usd` is "cost in USD". */
function labelOf(name: string): string {
  return name
    .replace(/^(allowed|max)_/, '')
    .replace(/_usd$/, ' in USD')
    .replaceAll('_', ' ');
}

/** What has been used of one limit. */
export interface Use {
  readonly label: string;
  readonly used: number;
  readonly limit: number;
  readonly isReached: boolean;
}

/** What has been used of the limits of a receipt, as far as somebody said. */
export function usesOf({ jwt, limits }: Token, { used, countedAt }: Settings): Use[] {
  const digest = digestOf(jwt);
  const usage = used.get(digest)?.[countedAt];
  if (usage === undefined || usage === null) return [];
  const [counted] = limitsOf([{ limits, digest, claims: { nbf: 0, exp: null } }]);
  if (counted === undefined) return [];
  const { maxCalls, maxTotalMicroUsd } = counted;
  const { calls, microUsd } = usage;
  return [
    ...(maxCalls === null ? [] : [{ label: 'calls used', used: calls, limit: maxCalls }]),
    ...(maxTotalMicroUsd === null
      ? []
      : [{ label: 'USD used', used: toUsd(microUsd), limit: toUsd(maxTotalMicroUsd) }]),
  ].map((use) => ({ ...use, isReached: use.used >= use.limit }));
}

/** What of a receipt a service has revoked locally. */
export function withdrawalsOf(
  token: Token,
  isFirst: boolean,
  { entries }: Settings,
): (Pick<LocalRevocation, 'at' | 'reason'> & { readonly what: string })[] {
  if (entries === null) return [];
  const targets: [what: string, target: number | string | null][] = [
    ['Its status list index', numberClaim(token, 'drs_status_list_index')],
    ['This receipt', digestOf(token.jwt)],
    ['The key that gives', isFirst ? textClaim(token, 'iss') : null],
    ['The key that gets it', textClaim(token, 'aud')],
  ];
  return targets.flatMap(([what, target]) => {
    const entry = target === null ? undefined : entries.get(target);
    return entry === undefined ? [] : [{ what, at: entry.at, reason: entry.reason }];
  });
}
