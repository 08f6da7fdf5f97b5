import { Failure } from '../codes.js';
import type { Receipt } from '../receipt.js';
import type { Structure } from './a-structure.js';

/**
 * Block E: the time lies inside every receipt's window, both bounds inclusive, and each window inside its parent's.
 *
 * @param now Unix seconds
 * @param skew seconds by which both bounds are relaxed
 */
export function checkTime(
  { receipts, chain }: Pick<Structure, 'receipts' | 'chain'>,
  now: number,
  skew: number,
): Failure | null {
  // Windows of a proven chain nest, so the leaf's is the narrowest.
  if (chain !== null && isWithin(chain.leaf, now, skew)) return null;
  for (let index = 0; index < receipts.length; index++) {
    const receipt = receipts[index] as Receipt;
    const failure =
      checkWindow(receipt, index, now, skew) ?? checkNesting(receipts[index - 1], receipt, index);
    if (failure !== null) return failure;
  }
  return null;
}

function isWithin({ claims: { nbf, exp } }: Receipt, now: number, skew: number): boolean {
  return now >= nbf - skew && now <= (exp ?? Infinity) + skew;
}

function checkWindow(
  { claims: { nbf, exp } }: Receipt,
  subject: number,
  now: number,
  skew: number,
): Failure | null {
  const allowance = skew === 0 ? '' : ` give or take ${skew} s of clock skew`;
  if (now < nbf - skew) {
    const expected = `a time of at most ${now}${allowance}, which is now`;
    return new Failure('NOT_YET_VALID', { subject, claimed: nbf, expected });
  }
  if (now > (exp ?? Infinity) + skew) {
    const expected = `a time of at least ${now}${allowance}, which is now`;
    return new Failure('EXPIRED', { subject, claimed: exp, expected });
  }
  return null;
}

function checkNesting(parent: Receipt | undefined, child: Receipt, subject: number): Failure | null {
  if (parent === undefined || child.parent === parent) return null;
  const { nbf: from, exp: until } = parent.claims;
  const { nbf, exp } = child.claims;
  if (nbf < from) {
    return new Failure('TEMPORAL_BOUNDS_VIOLATION', {
      subject,
      member: 'nbf',
      claimed: nbf,
      expected: `at least ${from}`,
    });
  }
  if (typeof until === 'number' && (exp ?? Infinity) > until) {
    return new Failure('TEMPORAL_BOUNDS_VIOLATION', {
      subject,
      member: 'exp',
      claimed: exp,
      expected: `at most ${until}`,
    });
  }
  return null;
}
