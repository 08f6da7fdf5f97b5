import { MAX_USD, toMicroUsd, toUsd } from '../protocol/money.js';
import { isMoney } from '../protocol/policy.js';
import { REFUND_SECS, type Refund, type ReplayStore } from './usage-store.js';

/** Why a charge was not given back. */
export type RefundFault =
  | 'invalid_amount'
  | 'no_limits'
  | 'not_counted'
  | 'unsupported'
  | 'late'
  | 'again'
  | 'above_charge'
  | 'unknown'
  | 'unavailable';

/** A charge was not given back. Only with the reason `unavailable` it may have been; then to try again is safe. */
export class RefundError extends Error {
  override readonly name = 'RefundError';
  readonly reason: RefundFault;

  constructor(reason: RefundFault, message: string, options?: ErrorOptions) {
    super(`nothing is given back: ${message}`, options);
    this.reason = reason;
  }
}

/** What was given back of a charge. */
export interface Refunded {
  /** 1 if the call no longer counts. */
  readonly calls: 0 | 1;
  /** US dollars; 0 where no receipt limits the cost. */
  readonly usd: number;
}

/** A call whose charge can be given back. */
export interface RefundableCall {
  /** Where it was charged; `null` if nobody counts. */
  readonly store: ReplayStore | null;
  /** Of `replayKey`. */
  readonly key: string;
  /** The digests of its limited receipts, root first. */
  readonly receipts: readonly string[];
  /** When it was charged, in Unix seconds by the clock of the verifier. */
  readonly at: number;
}

/**
 * Gives back what a call was charged: once, over all that share the store, and within 60 s of the call.
 *
 * @param usd the part of the cost to give back, in US dollars; if left out, the whole charge: the call, and its cost
 * @param now Unix seconds
 * @returns what was given back; rejects with a {@link RefundError} that says why it was not
 * @example await refundCall({ store, key: replayKey('gate', agent, jti), receipts, at: now }, 0.05, now);
 */
export async function refundCall(
  { store, key, receipts, at }: RefundableCall,
  usd: number | undefined,
  now: number,
): Promise<Refunded> {
  if (usd !== undefined && !isMoney(usd)) {
    const found = typeof usd === 'number' ? String(usd) : `a ${typeof usd}`;
    throw new RefundError(
      'invalid_amount',
      `the amount is ${found}, expected US dollars from 0 to ${MAX_USD}`,
    );
  }
  if (store === null)
    throw new RefundError('not_counted', 'calls are not counted here, since there is no replay store');
  if (receipts.length === 0) throw new RefundError('no_limits', 'no receipt of the call has a limit');
  if (store.refund === undefined)
    throw new RefundError('unsupported', 'the replay store has no refund(), see ReplayStore');
  if (now - at > REFUND_SECS) throw faultOf({ kind: 'late' });
  let refund: Refund;
  try {
    refund = await store.refund(key, receipts, now, usd === undefined ? null : toMicroUsd(usd, 'down'));
  } catch (error) {
    const message = 'the store could not tell, and may have done it; try again';
    throw new RefundError('unavailable', message, { cause: error });
  }
  if (refund.kind !== 'refunded') throw faultOf(refund);
  return { calls: refund.calls, usd: toUsd(refund.microUsd) };
}

function faultOf(refund: Exclude<Refund, { kind: 'refunded' }>): RefundError {
  switch (refund.kind) {
    case 'above':
      return new RefundError(
        'above_charge',
        `the amount is above the ${toUsd(refund.chargedMicroUsd)} US dollars that the call was charged`,
      );
    case 'late':
      return new RefundError('late', `the call is more than ${REFUND_SECS} s ago`);
    case 'again':
      return new RefundError('again', 'the call was given back before');
    case 'unknown':
      return new RefundError(
        'unknown',
        'no charge of the call is on record: the store lost it, or an older version made it',
      );
  }
}
