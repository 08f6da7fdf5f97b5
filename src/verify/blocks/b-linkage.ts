import { Failure, show } from '../codes.js';
import type { Receipt } from '../receipt.js';
import type { Structure } from './a-structure.js';

/** Block B for the call: it is invoked by the last delegate, and names every receipt. */
export function checkCallLinkage({
  receipts,
  invocation,
}: Pick<Structure, 'receipts' | 'invocation'>): Failure | null {
  const leaf = receipts.at(-1) as Receipt;
  const { iss, dr_chain } = invocation.claims;
  if (iss !== leaf.claims.aud) {
    return new Failure('INVOKER_MISMATCH', {
      subject: 'invocation',
      claimed: iss,
      expected: show(leaf.claims.aud),
    });
  }
  if (dr_chain.length !== receipts.length) {
    return new Failure('CHAIN_REFERENCE_MISMATCH', {
      subject: 'invocation',
      member: 'the length of dr_chain',
      claimed: dr_chain.length,
      expected: `${receipts.length}, one hash for each receipt`,
    });
  }
  for (let at = 0; at < receipts.length; at++) {
    const { digest } = receipts[at] as Receipt;
    if (dr_chain[at] === digest) continue;
    return new Failure('CHAIN_REFERENCE_MISMATCH', {
      subject: 'invocation',
      member: `dr_chain[${at}]`,
      claimed: dr_chain[at],
      expected: `"${digest}", the hash of receipt ${at}`,
    });
  }
  return null;
}

/** Block B for receipts: each names the one before it, by key and by hash. */
export function checkReceiptLinkage(receipts: readonly Receipt[]): Failure | null {
  let parent: Receipt | null = null;
  for (let subject = 0; subject < receipts.length; subject++) {
    const receipt = receipts[subject] as Receipt;
    const { iss, prev_dr_hash: claimed } = receipt.claims;
    if (parent === null) {
      if (claimed !== null)
        return new Failure('CHAIN_BREAK', { subject, claimed, expected: 'null in the root' });
    } else {
      if (claimed !== parent.digest) {
        const expected = `"${parent.digest}", the hash of receipt ${subject - 1}`;
        return new Failure('CHAIN_BREAK', { subject, claimed, expected });
      }
      if (iss !== parent.claims.aud) {
        const expected = show(parent.claims.aud);
        return new Failure('ISSUER_MISMATCH', { subject, claimed: iss, expected });
      }
    }
    parent = receipt;
  }
  return null;
}
