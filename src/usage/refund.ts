import { MAX_USD, toMicroUsd, toUsd } from '../protocol/money.js';
import { isMoney } from '../protocol/policy.js';
import type { InvocationClaims } from '../protocol/claims.js';
import type { CountedLimits } from '../verify/limits.js';
import { show, showTime } from '../verify/codes.js';
import { ReplayStoreError, type RefundPart, type ReplayStore } from './usage-store.js';
import { replayKey } from './use-invocation.js';

/** Seconds after a call was allowed in which its charge can be given back. */
const REFUND_SECS = 60;

/** Why a charge was not given back, as docs/spec/usage.md#refunds has it. */
// prettier-ignore
export const REFUND_CODES = [
  'REFUND_MALFORMED', 'REFUND_CONTEXT_INVALID', 'REFUND_NOT_CHARGED', 'REFUND_TOO_LATE', 'REFUND_TOO_LARGE', 'REFUND_REPEATED',
  'REFUND_UNKNOWN', 'REFUND_UNAVAILABLE',
] as const;

/** Why a charge was not given back. */
export type RefundCode = (typeof REFUND_CODES)[number];

/** A charge was not given back. */
export class RefundError extends Error {
  override readonly name = 'RefundError';
  readonly code: RefundCode;

  constructor(code: RefundCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What was given back of a charge. */
export interface Refunded {
  /** 1 if the call no longer counts. */
  readonly calls: 0 | 1;
  /** In US dollars. */
  readonly total_cost_usd: number;
}

/** An allowed call, and what it was charged. */
export interface ChargedCall extends Pick<InvocationClaims, 'iss' | 'jti'> {
  /** As in the `ReplayRules` under which it was charged. */
  readonly scope: string;
  /** When it was allowed, in Unix seconds. */
  readonly allowedAt: number;
  /** What each limited receipt was charged besides 1 call, root first; empty if none has a limit. */
  readonly charged: readonly RefundPart[];
}

/** What the limits of an allowed call were charged besides 1 call. */
export function chargedOf(costMicroUsd: number | null, limits: readonly CountedLimits[]): RefundPart[] {
  return limits.map(({ receipt, maxTotalMicroUsd }) => ({
    receipt,
    microUsd: maxTotalMicroUsd === null ? 0 : (costMicroUsd ?? 0),
  }));
}

/**
 * Gives back what a call was charged: once, and at most so much.
 *
 * @param usd the part of the cost; `undefined` for the call and its whole cost
 * @param store in which it was charged
 * @param now Unix seconds
 * @throws RefundError if nothing was given back, or nobody knows
 */
export async function refundCall(
  call: ChargedCall,
  usd: unknown,
  store: ReplayStore,
  now: number,
): Promise<Refunded> {
  if (usd !== undefined && !isMoney(usd)) {
    const expected = `a number of US dollars from 0 to ${MAX_USD}, or none to give back the whole call`;
    throw new RefundError('REFUND_MALFORMED', `the amount is ${show(usd)}, expected ${expected}`);
  }
  const { charged, allowedAt, scope, iss, jti } = call;
  if (charged.length === 0)
    throw new RefundError('REFUND_NOT_CHARGED', 'the call was charged to no limit: no receipt of it has one');
  const end = allowedAt + REFUND_SECS;
  if (now > end) {
    const message = `the call could be given back until ${showTime(end)}, ${REFUND_SECS} s after it was allowed`;
    throw new RefundError('REFUND_TOO_LATE', message);
  }
  const cost = Math.max(...charged.map(({ microUsd }) => microUsd));
  const back = usd === undefined ? cost : toMicroUsd(usd, 'down');
  if (back > cost) {
    const message = `${show(usd)} US dollars were to be given back, and the call was charged ${toUsd(cost)}`;
    throw new RefundError('REFUND_TOO_LARGE', message);
  }
  // The bill is as high as the estimate: nothing is given back, and a later refund is still possible.
  if (usd !== undefined && back === 0) return { calls: 0, total_cost_usd: 0 };
  const calls = usd === undefined ? 1 : 0;
  const parts = charged.map(({ receipt, microUsd }) => ({ receipt, microUsd: Math.min(back, microUsd) }));
  if (store.refund === undefined)
    throw new RefundError(
      'REFUND_UNAVAILABLE',
      'this replay store cannot give back: it has no function `refund`',
    );
  let answer: unknown;
  try {
    answer = await store.refund(replayKey(scope, iss, jti), { calls, parts });
  } catch (error) {
    const reason = error instanceof ReplayStoreError ? error.message : 'the store failed';
    const message = `nobody knows whether the call was given back: ${reason}; ask again`;
    throw new RefundError('REFUND_UNAVAILABLE', message, { cause: error });
  }
  if (answer === 'repeated')
    throw new RefundError('REFUND_REPEATED', 'the call was given back already, which is possible once');
  // Any other answer, of a store of the user's own, is no refund either.
  if (answer !== 'refunded')
    throw new RefundError('REFUND_UNKNOWN', 'the store has no such charge: it is another, or has lost it');
  return { calls, total_cost_usd: toUsd(back) };
}
