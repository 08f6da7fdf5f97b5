import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { verifyCheck } from '../../src/signatures/in-thread.js';
import { Failure } from '../../src/verify/codes.js';
import { openClaims, proveClaims, readReceipts } from '../../src/verify/judge.js';
import { makeChain, NOW, party, type Overrides } from '../support/chain.js';
import { RULES } from '../support/receipts.js';

const verify = (receipts: readonly string[], now = NOW, rules: object = {}) =>
  judge(receipts, now, { ...RULES, ...rules })?.code;
function judge(jwts: readonly string[], now: number, rules: typeof RULES) {
  const receipts = readReceipts(jwts, null);
  if (receipts instanceof Failure) return receipts;
  const signed = { receipts, chain: null, invocation: null };
  const plan = openClaims(signed, DEFAULT_KEYS);
  return plan instanceof Failure ? plan : proveClaims(signed, plan, plan.checks.map(verifyCheck), now, rules);
}
const withClaims = (claims: Overrides) => makeChain(3, { 1: claims }).receipts;

describe('receipts without an invocation', () => {
  it('are valid by themselves', () => {
    expect(verify(makeChain(1).receipts)).toBeUndefined();
    expect(verify(makeChain(3).receipts)).toBeUndefined();
  });

  it.each<[string, readonly string[]]>([
    ['INVALID_JTI', withClaims({ jti: 'x' })],
    ['CHAIN_BREAK', makeChain(3).receipts.slice(1)],
    ['UNRESOLVABLE_DID', makeChain(1, { 0: { iss: 'did:web:example.org' } }).receipts],
    ['INVALID_SIGNATURE', [makeChain(1).receipts[0]?.replace(/[^.]{10}$/, 'AAAAAAAAAA') ?? '']],
    ['SUBJECT_MISMATCH', withClaims({ sub: party().did })],
    ['POLICY_ESCALATION', withClaims({ policy: {} })],
    ['TEMPORAL_BOUNDS_VIOLATION', withClaims({ nbf: NOW - 61 })],
  ])('are refused with %s', (code, receipts) => {
    expect(verify(receipts)).toBe(code);
  });

  it('are checked at the time and by the rules that are given', () => {
    const { receipts } = makeChain(2);
    expect(verify(receipts, NOW + 3601)).toBe('EXPIRED');
    expect(verify(receipts, NOW + 3601, { expiryGraceSecs: 1 })).toBeUndefined();
    expect(verify(receipts, NOW, { trustedRoots: new Map() })).toBe('UNTRUSTED_ROOT');
  });
});
