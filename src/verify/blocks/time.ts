import { Failure, showTime, type Code } from '../codes.js';
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
  for (let subject = 0; subject < receipts.length; subject++) {
    const { nbf, exp } = (receipts[subject] as Receipt).claims;
    const failure = checkPeriod(subject, nbf, exp, now, rules, 'NOT_YET_VALID', 'EXPIRED');
    if (failure !== null) return failure;
    const parent = chain === null ? receipts[subject - 1] : undefined;
    if (parent === undefined) continue;
    const { nbf: from, exp: until } = parent.claims;
    if (nbf < from) {
      const expected = `at least ${showTime(from)}`;
      return new Failure('TEMPORAL_BOUNDS_VIOLATION', { subject, member: 'nbf', time: nbf, expected });
    }
    if (until !== null && (exp ?? Infinity) > until) {
      const [time, expected] = [exp ?? undefined, `at most ${showTime(until)}`];
      return new Failure('TEMPORAL_BOUNDS_VIOLATION', { subject, member: 'exp', time, expected });
    }
  }
  return null;
}

// The operator's dates are by the clock of this verifier.
const NO_SKEW: Bounds = { clockSkewSecs: 0, expiryGraceSecs: 0 };

/**
 * Block E for the root: the time lies inside its entry.
 *
 * @param trusted what the operator says of the root
 * @param now Unix seconds
 */
export function checkEntry({ from, until }: Root, now: number): Failure | null {
  return checkPeriod(0, from, until, now, NO_SKEW, 'ROOT_NOT_YET_VALID', 'ROOT_EXPIRED');
}

/** @param from the first second, and `until` the last one; `null` for no bound */
function checkPeriod(
  subject: number,
  from: number | null,
  until: number | null,
  now: number,
  { clockSkewSecs: skew, expiryGraceSecs: grace }: Bounds,
  early: Code,
  late: Code,
): Failure | null {
  if (from !== null && now < from - skew) {
    const allowance = skew === 0 ? '' : `, or up to ${skew} s later`;
    const expected = `a time of at most ${showTime(now)}, which is now${allowance}`;
    return new Failure(early, { subject, time: from, expected });
  }
  if (until !== null && now > until + grace) {
    const allowance = grace === 0 ? '' : `, or up to ${grace} s earlier`;
    const expected = `a time of at least ${showTime(now)}, which is now${allowance}`;
    return new Failure(late, { subject, time: until, expected });
  }
  return null;
}
