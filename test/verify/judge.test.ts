import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { InThreadVerifier } from '../../src/signatures/in-thread.js';
import { Failure } from '../../src/verify/codes.js';
import { judge, type Call, type JudgeParts } from '../../src/verify/judge.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import type { RemoteStatus } from '../../src/verify/revocation-view.js';
import { invoke, makeChain, NOW } from '../support/chain.js';

const args = { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 };
const ofArgs = { kind: 'value', value: args } as const;

/** A judge whose status list says `remote`, and takes a wait to say it. */
function openJudge(remote: RemoteStatus, more: Partial<JudgeParts> = {}) {
  const steps: string[] = [];
  let time = NOW;
  const parts: JudgeParts = {
    rules: { maxChainDepth: 16, clockSkewSecs: 5, serverIdentity: null, trustedRoots: null },
    ...{ cache: new ReceiptCache(1e6), keys: DEFAULT_KEYS, signatures: new InThreadVerifier() },
    revocation: {
      freshen: () => {
        steps.push('freshen');
        return Promise.resolve();
      },
      view: {
        remoteStatusOf: () => remote,
        isRevokedLocally: () => false,
        names: null,
        isNameRevoked: () => false,
      },
    },
    clock: () => time,
    requiresBinding: true,
    use: (claims, now) => {
      steps.push(`use at ${now - NOW}`);
      expect(claims.args).toEqual(args);
      return Promise.resolve(null);
    },
    ...more,
  };
  const bundle = invoke(makeChain(2, { 1: { drs_status_list_index: 7 } }), { args });
  return {
    steps,
    setTime: (seconds: number) => (time = NOW + seconds),
    parts,
    codeOf: async (call: Partial<Call> = {}) =>
      (await judge({ bundle, body: ofArgs, ...call }, parts)).failure?.code ?? null,
  };
}

describe('a judge', () => {
  it('records the invocation last, at the time that it has judged at', async () => {
    const { codeOf, steps } = openJudge('not_revoked');
    expect(await codeOf()).toBeNull();
    expect(steps).toEqual(['freshen', 'use at 0']);
    expect(await codeOf({ now: NOW + 3 })).toBeNull();
    expect(steps.at(-1)).toBe('use at 3');
  });

  it.each<[string, RemoteStatus, Partial<Call>, string]>([
    ['is revoked', 'revoked', {}, 'RECEIPT_REVOKED'],
    ['has another body', 'not_revoked', { body: { kind: 'text', text: '{}' } }, 'BINDING_MISMATCH'],
    ['has no body', 'not_revoked', { body: null }, 'BINDING_REQUIRED'],
    ['has neither a body nor a good chain', 'revoked', { body: null }, 'RECEIPT_REVOKED'],
    ['has expired', 'revoked', { now: NOW + 4000 }, 'EXPIRED'],
  ])('does not use up an invocation whose call %s', async (_, remote, call, code) => {
    const { codeOf, steps } = openJudge(remote);
    expect(await codeOf(call)).toBe(code);
    expect(steps.filter((step) => step.startsWith('use'))).toEqual([]);
  });

  it('says what the record of invocations says', async () => {
    const failure = new Failure('REPLAY_DETECTED', { subject: 'invocation', expected: 'a new one' });
    const { codeOf } = openJudge('not_revoked', { use: () => Promise.resolve(failure) });
    expect(await codeOf()).toBe('REPLAY_DETECTED');
  });

  it.each([
    [3605, null],
    [3606, 'EXPIRED'],
  ])('looks at the time again after it has waited for the list, %i s on', async (later, code) => {
    const judging = openJudge('not_revoked');
    const revocation = {
      ...judging.parts.revocation,
      freshen: () => {
        judging.setTime(later);
        return Promise.resolve();
      },
    };
    const bundle = invoke(makeChain(2, { 1: { drs_status_list_index: 7 } }), { args });
    const outcome = await judge({ bundle, body: ofArgs }, { ...judging.parts, revocation });
    expect(outcome.failure?.code ?? null).toBe(code);
  });

  it('does not wait for the list where it may not', async () => {
    const judging = openJudge('unavailable');
    const never = new Promise<void>(() => undefined);
    const revocation = { ...judging.parts.revocation, freshen: () => never };
    const { codeOf } = openJudge('unavailable', { revocation });
    expect(await codeOf({ mayWait: () => false })).toBe('REVOCATION_CHECK_FAILED');
  });
});
