import fc from 'fast-check';
import { agreementOf } from '../../src/gate/context.js';
import { describe, expect, it } from 'vitest';
import { isCommandPath, readInvocationClaims, readReceiptClaims } from '../../src/protocol/claims.js';
import type { JsonObject, JsonValue } from '../../src/protocol/json.js';

it('takes a command path as its segments say', () => {
  const bySegments = (path: string) =>
    path.startsWith('/') &&
    path
      .slice(1)
      .split('/')
      .every((segment) => !['', '.', '..'].includes(segment));
  const path = fc
    .array(fc.constantFrom('/', '.', 'a', '..', '\n', 'é'), { maxLength: 8 })
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(path, (text) => {
      expect([text, isCommandPath(text)]).toEqual([text, bySegments(text)]);
    }),
    { numRuns: 3000 },
  );
  for (const value of [undefined, null, 1, ['/a'], {}]) expect(isCommandPath(value)).toBe(false);
});

describe('the claims', () => {
  const root: JsonObject = {
    drs_type: 'delegation-receipt',
    drs_v: '4.0',
    iss: 'did:key:zA',
    aud: 'did:key:zB',
    sub: 'did:key:zA',
    cmd: '/mcp',
    policy: { max_calls: 1 },
    iat: 1,
    nbf: 1,
    exp: 2,
    jti: 'dr:1',
    drs_root_type: 'human',
    drs_consent: {
      locale: 'en',
      method: 'm',
      policy_hash: `sha256:${'0'.repeat(64)}`,
      session_id: 's',
      timestamp: '2026-01-01T00:00:00Z',
    },
  };
  const invocation: JsonObject = {
    drs_type: 'invocation-receipt',
    drs_v: '4.0',
    iss: 'did:key:zB',
    sub: 'did:key:zA',
    cmd: '/mcp',
    args: {},
    dr_chain: ['x'],
    iat: 1,
    jti: 'inv:1',
    tool_server: 'x',
  };
  const consent = root['drs_consent'] as JsonObject;

  it('of a root, of a child and of an invocation are taken as they are', () => {
    expect(readReceiptClaims(root, true, false)).toMatchObject({
      claims: root,
      limits: [{ member: { name: 'max_calls' } }],
    });
    const child = { ...root, drs_consent: null, exp: null, prev_dr_hash: 'sha256:x' };
    expect(readReceiptClaims(child, false, false).claims).toBe(child);
    expect(readInvocationClaims(invocation)).toEqual({ claims: invocation });
  });

  it.each<[string, JsonValue | undefined, string, string, string]>([
    ['drs_type', 'x', 'type', 'drs_type', '"delegation-receipt"'],
    ['drs_v', '3', 'version', 'drs_v', '"4.0"'],
    ['iss', 1, 'claim', 'iss', 'a string'],
    ['cmd', 'mcp', 'claim', 'cmd', 'a path such as "/mcp/tools/call"'],
    ['nbf', -1, 'claim', 'nbf', 'an integer from 0 to 2^53-1 (Unix seconds)'],
    ['prev_dr_hash', 1, 'claim', 'prev_dr_hash', 'a string, or null in the root'],
    ['drs_status_list_index', 1.5, 'claim', 'drs_status_list_index', 'an integer from 0 to 2^53-1'],
    ['policy', ['x'], 'claim', 'policy', 'an object'],
    ['drs_root_type', 1, 'claim', 'drs_root_type', 'a string such as "human"'],
    ['drs_consent', 'yes', 'claim', 'drs_consent', 'an object'],
    ['exp', null, 'claim', 'exp', 'an integer from 0 to 2^53-1 (Unix seconds), under a human root'],
    ['exp', 'never', 'claim', 'exp', 'an integer from 0 to 2^53-1 (Unix seconds), under a human root'],
    ['jti', 'dr:', 'jti', 'jti', '"dr:" followed by at least one character'],
    ['drs_consent', null, 'consent', 'drs_consent', 'the consent record of a human root'],
    ['drs_consent', undefined, 'consent', 'drs_consent', 'the consent record of a human root'],
  ])('of a root with %s %j have a defect of kind %s', (name, found, kind, claim, expected) => {
    const payload = { ...root, [name]: found } as JsonObject;
    const { defect } = readReceiptClaims(payload, true, false);
    expect(defect).toEqual({ kind, claim, found, expected });
  });

  it('of a root tell which member of its policy or consent is wrong', () => {
    const defectOf = (changes: JsonObject) => readReceiptClaims({ ...root, ...changes }, true, false).defect;
    expect(defectOf({ policy: { max_calls: -1 } })).toEqual({
      kind: 'claim',
      claim: 'policy.max_calls',
      found: -1,
      expected: 'an integer of at least 0',
    });
    expect(defectOf({ drs_consent: { ...consent, session_id: 1 } })).toEqual({
      kind: 'claim',
      claim: 'drs_consent.session_id',
      found: 1,
      expected: 'a string',
    });
  });

  it.each<[string, JsonValue, unknown]>([
    ['session_id', 's'.repeat(256), 's'.repeat(256)],
    ['session_id', '', undefined],
    ['session_id', 's'.repeat(257), undefined],
    ['session_id', 12, undefined],
    ['correlation_id', { a: 1 }, undefined],
    ['correlation_id', null, undefined],
    ['drs_regulatory', null, undefined],
    ['drs_regulatory', ['gdpr'], undefined],
    ['drs_regulatory', 'gdpr', undefined],
    [
      'drs_regulatory',
      { frameworks: Array(16).fill('gdpr'), risk_level: 'high', retention_days: 0, x: [] },
      { frameworks: Array(16).fill('gdpr'), risk_level: 'high', retention_days: 0 },
    ],
    ['drs_regulatory', { frameworks: null, risk_level: null, retention_days: null }, {}],
    ['drs_regulatory', { frameworks: Array(17).fill('x'), risk_level: 'low' }, { risk_level: 'low' }],
    ['drs_regulatory', { frameworks: ['x', ''], retention_days: 1.5 }, {}],
    ['drs_regulatory', { frameworks: {}, risk_level: '', retention_days: 9 }, { retention_days: 9 }],
    ['drs_regulatory', { risk_level: 3, frameworks: [] }, { frameworks: [] }],
  ])('that decide nothing are left out of the context in another form: %s %j', (claim, found, shown) => {
    const [rootRead, call] = [
      readReceiptClaims({ ...root, [claim]: found }, true, false).claims,
      readInvocationClaims({ ...invocation, [claim]: found }).claims,
    ];
    const child = { ...root, [claim]: found };
    expect(readReceiptClaims(child, false, true).claims).toBe(child);
    if (rootRead === undefined || call === undefined) throw new Error('they make a bundle malformed');
    const member = claim === 'drs_regulatory' ? 'regulatory' : (claim as 'session_id');
    const nothing = { drs_root_type: null, drs_consent: null };
    expect(agreementOf({ ...rootRead, ...nothing }, {})[member]).toEqual(shown);
    expect(agreementOf(nothing, call)[member]).toEqual(shown);
  });

  it.each<[string, JsonValue, string, string]>([
    ['drs_type', 'delegation-receipt', 'type', '"invocation-receipt"'],
    ['args', [], 'claim', 'an object'],
    ['dr_chain', ['x', 1], 'claim', 'an array of strings'],
    ['tool_server', '', 'claim', 'a non-empty string'],
    ['jti', 'dr:1', 'jti', '"inv:" followed by at least one character'],
  ])('of an invocation with %s %j have a defect of kind %s', (name, found, kind, expected) => {
    const { defect } = readInvocationClaims({ ...invocation, [name]: found });
    expect(defect).toEqual({ kind, claim: name, found, expected });
  });
});
