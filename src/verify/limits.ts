import type { JsonObject } from '../protocol/json.js';
import { toMicroUsd, toUsd } from '../protocol/money.js';
import { isMoney, type KnownPolicyMember, type PolicyLimit } from '../protocol/policy.js';
import { Failure, showTime } from './codes.js';
import { saidOf, type Stated, type Tool } from './tools.js';

/** The limits of one receipt that hold for all calls below it together. A verdict alone cannot tell what others used. */
export interface CountedLimits {
  /** The place of the receipt in the chain; 0 is the root. */
  readonly level: number;
  /** The digest of the receipt, `sha256:` and 64 hex digits, under which its calls are counted. */
  readonly receipt: string;
  /** `max_calls`; `null` if the receipt does not limit them. */
  readonly maxCalls: number | null;
  /** `max_total_cost_usd` in micro-dollars, rounded down; `null` if the receipt does not limit them. */
  readonly maxTotalMicroUsd: number | null;
  /** Unix seconds, the first one in which the receipt is valid. */
  readonly nbf: number;
  /** Unix seconds, the last one in which the receipt is valid; `null` if it has no end. */
  readonly exp: number | null;
}

/** A receipt, as far as its limits are concerned. */
interface LimitedReceipt {
  readonly limits: readonly PolicyLimit[];
  readonly digest: string;
  readonly claims: { readonly nbf: number; readonly exp: number | null };
}

/**
 * The limits that are to be counted for a call under a chain, root first. A call is charged to all of them, or to none.
 *
 * @param receipts of a chain that was proved
 * @returns one item for each receipt with `max_calls` or `max_total_cost_usd`
 * @example limitsOf(receipts); // [{ level: 0, receipt: 'sha256:…', maxCalls: 100, maxTotalMicroUsd: null, nbf: …, exp: … }]
 */
export function limitsOf(receipts: readonly LimitedReceipt[]): CountedLimits[] {
  const counted: CountedLimits[] = [];
  for (const [level, receipt] of receipts.entries()) {
    let maxCalls: number | null = null;
    let maxTotalMicroUsd: number | null = null;
    for (const { member, value } of receipt.limits) {
      if (member.name === 'max_calls') maxCalls = value as number;
      else if (member.name === 'max_total_cost_usd') maxTotalMicroUsd = toMicroUsd(value as number, 'down');
    }
    if (maxCalls === null && maxTotalMicroUsd === null) continue;
    const { nbf, exp } = receipt.claims;
    counted.push({ level, receipt: receipt.digest, maxCalls, maxTotalMicroUsd, nbf, exp });
  }
  return counted;
}

/**
 * What a call costs, as it is charged to `max_total_cost_usd`: what the operator says, else what it states.
 *
 * @returns micro-dollars, rounded up, at most 10^15; `null` if nobody says a cost that can be counted, which no
 *   call has that passed block D under such a limit
 * @example costMicroUsdOf({ tool: 'search', estimated_cost_usd: 0.1 }, null); // 100_000
 */
export function costMicroUsdOf(args: JsonObject, tool: Tool | null): number | null {
  const said = saidOf(tool, 'estimated_cost_usd', args);
  const cost = said === null ? args['estimated_cost_usd'] : 'values' in said ? said.values[0] : undefined;
  return isMoney(cost) ? toMicroUsd(cost, 'up') : null;
}

/** The same by the verdict of another verifier, which tells only what was said of the cost. */
export function statedCostOf(args: JsonObject, { cost_usd: said }: Pick<Stated, 'cost_usd'>): number | null {
  return said === undefined ? costMicroUsdOf(args, null) : isMoney(said) ? toMicroUsd(said, 'up') : null;
}

/** What is left of the limits of one receipt after a call, as verdicts and contexts show it. */
export interface LimitLeft {
  /** The place of the receipt in the chain; 0 is the root. */
  readonly level: number;
  /** The digest of the receipt. */
  readonly receipt: string;
  /** Of `max_calls`; absent if the receipt does not have it. */
  readonly calls_left?: number;
  /** Of `max_total_cost_usd`, in US dollars; absent if the receipt does not have it. */
  readonly usd_left?: number;
  /** When the limit ends: the receipt's `exp`, in Unix seconds; `null` if it has no end. */
  readonly expires_at: number | null;
}

/**
 * What is left of limits.
 *
 * @param used by calls so far, for each limit; money in micro-dollars
 */
export function limitsLeft(
  limits: readonly CountedLimits[],
  used: readonly { readonly calls: number; readonly microUsd: number }[],
): LimitLeft[] {
  return limits.map(({ level, receipt, maxCalls, maxTotalMicroUsd, exp: expires_at }, index) => {
    const { calls = 0, microUsd = 0 } = used[index] ?? {};
    // Written out: with spreads, this took half the time of a limit.
    const calls_left = Math.max(0, (maxCalls ?? 0) - calls);
    if (maxTotalMicroUsd === null) return { level, receipt, calls_left, expires_at };
    const usd_left = toUsd(Math.max(0, maxTotalMicroUsd - microUsd));
    if (maxCalls === null) return { level, receipt, usd_left, expires_at };
    return { level, receipt, calls_left, usd_left, expires_at };
  });
}

/** The names of a chain's limits, where nobody counts: for the caller, who must count or refuse. */
export function limitNamesOf(limits: readonly CountedLimits[]): ReachedLimit['member'][] {
  const names: ReachedLimit['member'][] = [];
  if (limits.some(({ maxTotalMicroUsd }) => maxTotalMicroUsd !== null)) names.push('max_total_cost_usd');
  if (limits.some(({ maxCalls }) => maxCalls !== null)) names.push('max_calls');
  return names;
}

/** A limit that a call would exceed. Money is in micro-dollars. */
export interface ReachedLimit {
  readonly level: number;
  readonly member: Extract<KnownPolicyMember, 'max_calls' | 'max_total_cost_usd'>;
  readonly limit: number;
  /** What earlier calls used of it. */
  readonly used: number;
  /** What this call would use: 1 call, or its cost. */
  readonly asked: number;
  /** When the limit ends, in Unix seconds; `null` if it has no end. */
  readonly exp: number | null;
}

/**
 * The refusal of a call that would exceed a counted limit.
 *
 * @example limitReached({ level: 0, member: 'max_calls', limit: 5, used: 5, asked: 1, exp: null }).message;
 * // 'Receipt 0: this call takes 1 of policy.max_calls, expected at most 0: 5 of 5 are used, and the limit has no end'
 */
export function limitReached({ level, member, limit, used, asked, exp }: ReachedLimit): Failure {
  const show = (amount: number) => (member === 'max_calls' ? amount : toUsd(amount));
  const left = show(Math.max(0, limit - used));
  const end = exp === null ? 'the limit has no end' : `the limit ends at ${showTime(exp)}`;
  return new Failure('LIMIT_REACHED', {
    subject: level,
    member,
    claimed: show(asked),
    expected: `at most ${left}: ${show(used)} of ${show(limit)} are used, and ${end}`,
  });
}
