import { describe, expect, it } from 'vitest';
import { callContextOf, countedOf } from '../../src/gate/context.js';
import { invoke, makeChain, sha256 } from '../support/chain.js';
import { contextIn, proofOf } from './decide.js';

const bundleOf = (overrides: Readonly<Record<number, object>> = {}, invocation: object = {}) =>
  invoke(makeChain(3, overrides as never), invocation as never);
const proved = (...given: Parameters<typeof bundleOf>) => proofOf(bundleOf(...given));

describe('the context of a call', () => {
  it('holds the earliest end, the ids and the consent', () => {
    const proof = proved(
      { 0: { exp: 30, jti: 'dr:0' }, 1: { exp: 10, jti: 'dr:1' }, 2: { exp: 20, jti: 'dr:2' } },
      { jti: 'inv:1', cmd: '/mcp/tools/call/x' },
    );
    expect(callContextOf(proof)).toEqual({
      agent: proof.invocation.claims.iss,
      command: '/mcp/tools/call/x',
      tool: 'search',
      invocation: 'inv:1',
      receipts: ['dr:0', 'dr:1', 'dr:2'],
      root_type: 'human',
      consent_record: proof.chain.root.claims.drs_consent,
      expires_at: 10,
    });
  });

  it('says null or nothing where there is nothing', () => {
    const machine = { drs_root_type: undefined, drs_consent: undefined, exp: undefined };
    const standing = { exp: undefined };
    const context = callContextOf(proved({ 0: machine, 1: standing, 2: standing }, { args: { tool: 7 } }));
    expect(context).toMatchObject({ tool: null, root_type: null, expires_at: null });
    const absent = [
      'consent_record',
      'session_id',
      'correlation_id',
      'regulatory',
      'root_name',
      'labels',
      'approval',
    ];
    for (const member of absent) expect(context).not.toHaveProperty(member);
  });

  it('names the root as the operator does, whatever the receipts say, and shares no labels', () => {
    const root = { name: 'alice@example.com', labels: { team: 'sales' } };
    const forged = { root_name: 'boss', labels: { team: 'board' } };
    const proof = proved({ 0: forged }, { args: { tool: 'x', root_name: 'boss' } });
    const context = callContextOf({ ...proof, root: { ...proof.root, ...root } });
    expect(context).toMatchObject({ root_name: 'alice@example.com', labels: { team: 'sales' } });
    expect(context.labels).not.toBe(root.labels);
    expect(callContextOf(proof)).not.toHaveProperty('root_name');
  });

  it('says what call it is by the agent before the principal, and by which rules the other way round', () => {
    const rules = (risk_level: string) => ({ drs_regulatory: { risk_level, x: [1], retention_days: null } });
    const [ofRoot, ofCall] = ['root', 'call'].map((id) => ({
      ...{ session_id: `s-${id}`, correlation_id: `c-${id}` },
      ...rules(id),
    }));
    const contextOf = (root: object = {}, call: object = {}) => {
      // What other receipts say is nothing.
      return callContextOf(proved({ 0: root, 1: { session_id: [], ...rules('child') } }, call));
    };
    const call = { session_id: 's-call', correlation_id: 'c-call' };
    expect(contextOf(ofRoot, ofCall)).toMatchObject({ ...call, regulatory: { risk_level: 'root' } });
    expect(contextOf({}, ofCall)).toMatchObject({ ...call, regulatory: { risk_level: 'call' } });
    const { session_id, correlation_id, regulatory } = contextOf(ofRoot);
    expect([session_id, correlation_id]).toEqual(['s-root', 'c-root']);
    expect(regulatory).toEqual({ risk_level: 'root' });
    expect(contextOf()).not.toHaveProperty('regulatory');
    const consent = { ...proved().chain.root.claims.drs_consent, unknown: 'x' };
    expect(contextOf({ drs_consent: consent }).consent_record).not.toHaveProperty('unknown');
  });

  it('has no end where only some receipts have none, but the end of the others', () => {
    const machine = { drs_root_type: 'automated', drs_consent: undefined, exp: undefined };
    expect(callContextOf(proved({ 0: machine, 1: { exp: 50 }, 2: { exp: 40 } }))).toMatchObject({
      root_type: 'automated',
      expires_at: 40,
    });
  });

  it('is frozen through and through', () => {
    const context = contextIn(bundleOf({ 2: { policy: { a: { b: [{}, null] } } } }), null);
    const frozen = (value: unknown): boolean =>
      typeof value !== 'object' ||
      value === null ||
      (Object.isFrozen(value) && Object.values(value).every(frozen));
    expect(frozen(context)).toBe(true);
    expect(context).not.toHaveProperty('binding');
  });

  const unreadable = /^the verifier accepted what the gate cannot read \(.+\): use the same version of both$/;

  it.each([
    ...[null, 1, {}, { receipts: {}, invocation: '' }],
    ...[[], ['x'], [1]].map((receipts) => ({ ...bundleOf(), receipts })),
    ...[undefined, 'x'].map((invocation) => ({ ...bundleOf(), invocation })),
  ])('cannot be had of %j', (bundle) => {
    expect(() => proofOf(bundle)).toThrow(unreadable);
  });
  it('cannot be had of claims that a receipt may not have in its place', () => {
    const consent = { drs_consent: undefined };
    const standing = { exp: undefined };
    const bundle = (overrides: object) => invoke(makeChain(2, overrides as never));
    expect(() => proofOf(bundle({}))).not.toThrow();
    expect(() => proofOf(bundle({ 0: consent }))).toThrow(unreadable);
    expect(() => proofOf(bundle({ 1: standing }))).toThrow(unreadable);
    const automated = { ...consent, drs_root_type: 'automated' };
    expect(() => proofOf(bundle({ 0: automated, 1: standing }))).not.toThrow();
    expect(() => proofOf(bundle({ 0: automated }))).not.toThrow();
    expect(() => proofOf({ ...bundle({}), invocation: invoke(makeChain(1), { cmd: 5 }).invocation })).toThrow(
      unreadable,
    );
  });
  it('has the policy of the leaf', () => {
    const bundle = bundleOf({ 0: { policy: { a: 0 } }, 2: { policy: { a: 2 } } });
    expect(contextIn(bundle, null).leaf_policy).toEqual({ a: 2 });
  });
  it('has the limits of the chain, by the receipts that set them', () => {
    const machine = { drs_root_type: 'automated', drs_consent: undefined, exp: undefined };
    const bundle = bundleOf({
      0: { ...machine, policy: { max_calls: 9 } },
      2: { exp: 40, policy: { max_calls: 7, max_total_cost_usd: 5 } },
    });
    const [first = '', , third = ''] = bundle.receipts;
    const { root, limits } = proofOf(bundle).chain;
    const { nbf } = root.claims;
    expect(limits).toEqual([
      { level: 0, receipt: sha256(first), maxCalls: 9, maxTotalMicroUsd: null, nbf, exp: null },
      { level: 2, receipt: sha256(third), maxCalls: 7, maxTotalMicroUsd: 5_000_000, nbf, exp: 40 },
    ]);
    for (const policy of [{}, { max_calls: 9 }, { max_total_cost_usd: 5 }])
      expect(proved({ 1: { policy } }).chain.limits).toHaveLength(Object.keys(policy).length);
  });
  it('says what is left of the limits, or that nobody counts them', () => {
    const { limits } = proved({ 0: { policy: { max_calls: 9 } } }).chain;
    const left = [{ level: 0, receipt: '', calls_left: 8, expires_at: null }];
    expect(countedOf(limits, left)).toEqual({ limits: left });
    expect(countedOf(limits, null)).toEqual({ unenforced: ['max_calls'] });
    expect(countedOf([], null)).toEqual({});
    expect(countedOf([], left)).toEqual({});
  });
});
