import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { Chain, type Receipt } from '../../src/verify/receipt.js';
import { makeChain, type Overrides } from '../support/chain.js';
import { receiptsOf } from '../support/receipts.js';

const chainOf = (overrides: Readonly<Record<number, Overrides>> = {}) =>
  new Chain(receiptsOf(makeChain(3, overrides).receipts), DEFAULT_KEYS);
const receiptWith = (policy: object) => receiptsOf(makeChain(1, { 0: { policy } }).receipts)[0] as Receipt;

describe('a receipt', () => {
  it('knows whether a child has to repeat members of its policy', () => {
    expect(receiptWith({}).hasOtherMembers).toBe(false);
    expect(receiptWith({ max_calls: 1, allowed_tools: [] }).hasOtherMembers).toBe(false);
    expect(receiptWith({ max_calls: 1, region: 'eu' }).hasOtherMembers).toBe(true);
  });

  it('has the same text and policy after it was shrunk, once and again', () => {
    const policy = { region: 'eu', max_calls: 1 };
    const receipt = receiptWith(policy);
    const { jwt } = receipt;
    for (let time = 0; time < 2; time++) {
      receipt.shrink();
      expect(receipt.jwt).toBe(jwt);
      expect(receipt.policy).toEqual(policy);
    }
  });
});

describe('a chain', () => {
  it('can be revoked if any of its receipts can be', () => {
    expect(chainOf().isRevocable).toBe(false);
    expect(chainOf({ 1: { drs_status_list_index: 0 } }).isRevocable).toBe(true);
  });
});
