import type { InvocationClaims } from '../protocol/claims.js';
import { toMicroUsd, toUsd } from '../protocol/money.js';
import { Budget, isMoney, type KnownPolicyMember } from '../protocol/policy.js';
import { Failure, showTime } from './codes.js';
import type { Chain } from './receipt.js';

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
  /** Unix seconds, the last one in which the receipt is valid; `null` if it has no end. */
  readonly exp: number | null;
}

/**
 * The limits that are to be counted for a call under a chain, root first. A call is charged to all of them, or to none.
 *
 * @param chain a chain that was proved
 * @returns one item for each receipt with `max_calls` or `max_total_cost_usd`
 * @example limitsOf(chain); // [{ level: 0, receipt: 'sha256:…', maxCalls: 100, maxTotalMicroUsd: null, exp: 1700000000 }]
 */
export function limitsOf({ receipts }: Pick<Chain, 'receipts'>): CountedLimits[] {
  const counted: CountedLimits[] = [];
  for (let level = 0; level < receipts.length; level++) {
    const receipt = receipts[level] as Chain['leaf'];
    let maxCalls: number | null = null;
    let maxTotalMicroUsd: number | null = null;
    for (const { member, limit } of receipt.limits) {
      if (member.name === 'max_calls') maxCalls = limit.value as number;
      else if (limit instanceof Budget) maxTotalMicroUsd = limit.microUsd;
    }
    if (maxCalls === null && maxTotalMicroUsd === null) continue;
    counted.push({ level, receipt: receipt.digest, maxCalls, maxTotalMicroUsd, exp: receipt.claims.exp });
  }
  return counted;
}

/**
 * What a call costs, as it is charged to `max_total_cost_usd`.
 *
 * @returns micro-dollars, rounded up, at most 10^15; `null` if the call states no cost that can be counted, which no
 *   call has that passed block D under such a limit
 * @example costMicroUsdOf({ args: { tool: 'search', estimated_cost_usd: 0.1 } }); // 100_000
 */
export function costMicroUsdOf({ args }: Pick<InvocationClaims, 'args'>): number | null {
  const cost = args['estimated_cost_usd'];
  return isMoney(cost) ? toMicroUsd(cost, 'up') : null;
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
