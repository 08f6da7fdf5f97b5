import { Failure, showTime } from '../codes.js';
import type { Root, Rules } from '../parts.js';
import type { Receipt } from '../receipt.js';
import type { Structure } from './a-b-form.js';

type Bounds = Pick<Rules, 'clockSkewSecs' | 'expiryGraceSecs'>;

/**
 * Block E for receipts: the time lies inside every receipt's window, all bounds inclusive, and each window inside its
 * parent's.
 *
 * @param now Unix seconds
 */
export function checkWindows(
  { receipts, chain }: Pick<Structure, 'receipts' | 'chain'>,
  now: number,
  rules: Bounds,
): Failure | null {
  for (let index = 0; index < receipts.length; index++) {
    const receipt = receipts[index] as Receipt;
    const parent = chain === null ? receipts[index - 1] : undefined;
    const failure =
      checkWindow(receipt, index, now, rules) ??
      (parent === undefined ? null : checkNesting(parent, receipt, index));
    if (failure !== null) return failure;
  }
  return null;
}

/**
 * Block E for the root: the time lies inside its entry. The skew does not count: the operator's dates are by the clock of
 * this verifier.
 *
 * @param trusted what the operator says of the root
 * @param now Unix seconds
 */
export function checkEntry({ from, until }: Root, now: number): Failure | null {
  if (from !== null && now < from) {
    const expected = `a time of at most ${showTime(now)}, which is now`;
    return new Failure('ROOT_NOT_YET_VALID', { subject: 0, time: from, expected });
  }
  if (until !== null && now > until) {
    const expected = `a time of at least ${showTime(now)}, which is now`;
    return new Failure('ROOT_EXPIRED', { subject: 0, time: until, expected });
  }
  return null;
}

function checkWindow(
  { claims: { nbf, exp } }: Receipt,
  subject: number,
  now: number,
  { clockSkewSecs: skew, expiryGraceSecs: grace }: Bounds,
): Failure | null {
  if (now < nbf - skew) {
    const allowance = skew === 0 ? '' : `, or up to ${skew} s later`;
    const expected = `a time of at most ${showTime(now)}, which is now${allowance}`;
    return new Failure('NOT_YET_VALID', { subject, time: nbf, expected });
  }
  if (now > (exp ?? Infinity) + grace) {
    const allowance = grace === 0 ? '' : `, or up to ${grace} s earlier`;
    const expected = `a time of at least ${showTime(now)}, which is now${allowance}`;
    return new Failure('EXPIRED', { subject, time: exp ?? undefined, expected });
  }
  return null;
}

function checkNesting(parent: Receipt, child: Receipt, subject: number): Failure | null {
  const { nbf: from, exp: until } = parent.claims;
  const { nbf, exp } = child.claims;
  if (nbf < from) {
    return new Failure('TEMPORAL_BOUNDS_VIOLATION', {
      subject,
      member: 'nbf',
      time: nbf,
      expected: `at least ${showTime(from)}`,
    });
  }
  if (until !== null && (exp ?? Infinity) > until) {
    return new Failure('TEMPORAL_BOUNDS_VIOLATION', {
      subject,
      member: 'exp',
      time: exp ?? undefined,
      expected: `at most ${showTime(until)}`,
    });
  }
  return null;
}
