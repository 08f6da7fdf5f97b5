import { describe, expect, it } from 'vitest';
import { callContextOf, gateContextOf, readBundleClaims } from '../../src/gate/index.js';
import { invoke, makeChain } from '../support/chain.js';

const claimsOf = (overrides: Readonly<Record<number, object>> = {}, invocation: object = {}) =>
  readBundleClaims(invoke(makeChain(3, overrides as never), invocation as never));

describe('the context of a call', () => {
  it('holds the earliest end, the ids and the consent session', () => {
    const { receipts, invocation } = claimsOf(
      { 0: { exp: 30, jti: 'dr:0' }, 1: { exp: 10, jti: 'dr:1' }, 2: { exp: 20, jti: 'dr:2' } },
      { jti: 'inv:1', cmd: '/mcp/tools/call/x' },
    );
    expect(
      callContextOf(
        receipts.map((claims) => ({ ...claims, session_id: claims.drs_consent?.session_id ?? null })),
        invocation,
      ),
    ).toEqual({
      agent: invocation.iss,
      command: '/mcp/tools/call/x',
      tool: 'search',
      invocation: 'inv:1',
      receipts: ['dr:0', 'dr:1', 'dr:2'],
      root_type: 'human',
      session_id: 'session-1',
      expires_at: 10,
    });
  });

  it('says null or nothing where there is nothing', () => {
    const machine = { drs_root_type: undefined, drs_consent: undefined, exp: undefined };
    const standing = { exp: undefined };
    const { receipts, invocation } = claimsOf(
      { 0: machine, 1: standing, 2: standing },
      { args: { tool: 7 } },
    );
    const context = callContextOf(receipts, invocation);
    expect(context).toMatchObject({ tool: null, root_type: null, expires_at: null });
    expect(context).not.toHaveProperty('session_id');
  });

  it('has no end where only some receipts have none, but the end of the others', () => {
    const machine = { drs_root_type: 'automated', drs_consent: undefined, exp: undefined };
    const { receipts, invocation } = claimsOf({ 0: machine, 1: { exp: 50 }, 2: { exp: 40 } });
    expect(callContextOf(receipts, invocation)).toMatchObject({ root_type: 'automated', expires_at: 40 });
  });

  it('is frozen through and through', () => {
    const context = gateContextOf(claimsOf({ 2: { policy: { a: { b: [{}] } } } }), null);
    const frozen = (value: unknown): boolean =>
      typeof value !== 'object' ||
      value === null ||
      (Object.isFrozen(value) && Object.values(value).every(frozen));
    expect(frozen(context)).toBe(true);
    expect(context).not.toHaveProperty('binding');
  });

  it.each([
    null,
    1,
    {},
    { receipts: [] },
    { receipts: ['x'], invocation: 'x' },
    { receipts: {}, invocation: '' },
  ])('cannot be had of %j, whatever a verifier says of it', (bundle) => {
    expect(() => readBundleClaims(bundle)).toThrow('the verifier accepted');
  });
});
