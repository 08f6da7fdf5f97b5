import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { GATE_CATALOGUE, gateFailure, passesOnTrial, verdictFailure } from '../../src/gate/codes.js';

it('the catalogue of the gate and docs/codes.md list the same codes and statuses, in the same order', () => {
  const text = readFileSync(new URL('../../docs/codes.md', import.meta.url), 'utf8');
  const documented = [...text.matchAll(/^\| <a id="gate-(\w+)"><\/a>`(\w+)` \| ([^|]*) \|/gm)].map(
    ([, anchor, code, status]) => {
      expect(anchor).toBe(code);
      return [
        code,
        [...new Set(status?.match(/\b[45]\d\d\b/g))].filter((found, at) => at === 0 || found === '403'),
      ];
    },
  );
  expect(documented).toEqual(
    GATE_CATALOGUE.map(({ code, status, rpcStatus }) => [
      code,
      [...new Set([status, rpcStatus])].map(String),
    ]),
  );
});

it.each(['mcp', 'a2a'] as const)(
  'a missing bundle is no challenge over %s, and no other status differs',
  (protocol) => {
    for (const { code, status } of GATE_CATALOGUE)
      expect(gateFailure(code, protocol, 'found').status).toBe(code === 'MISSING_BUNDLE' ? 403 : status);
  },
);

it.each([
  ['EXPIRED', 403],
  ['REPLAY_DETECTED', 409],
  ['INVOCATION_STALE', 409],
  ['REPLAY_STORE_UNAVAILABLE', 503],
])('%s of a verdict is a %d', (code, status) => {
  const failure = { code, message: 'found', suggestion: 'Do it.' };
  expect(verdictFailure(failure)).toEqual({ ...failure, status, verdict: { valid: false } });
});

it('there is no failure without a code', () => {
  expect(() => gateFailure('NONE' as never, 'mcp', 'found')).toThrow(RangeError);
});

it.each(GATE_CATALOGUE)('$code says what to do', ({ code, status, suggestion }) => {
  expect(gateFailure(code, 'http', 'found')).toEqual({
    code,
    status,
    message: 'found',
    suggestion,
    verdict: null,
  });
  expect(suggestion).toMatch(/^[A-Z].*\.$/);
});

it('what a gate on trial refuses is what it cannot read as one request', () => {
  // Of a chain that was judged.
  const verdict = { valid: false };
  const refused = GATE_CATALOGUE.filter(({ code }) => {
    const isOfCall = ['BINDING_MISMATCH', 'TOOL_MISMATCH', 'APPROVAL_DENIED'].includes(code);
    return !passesOnTrial(gateFailure(code, 'http', 'found', isOfCall ? { verdict } : {}));
  });
  expect(refused.map(({ code }) => code).toSorted()).toEqual([
    ...['BATCH_NOT_SUPPORTED', 'BODY_TIMEOUT', 'BODY_TOO_LARGE', 'HOP_BY_HOP_HEADER'],
    ...['INVALID_JSONRPC', 'INVALID_PATH', 'METHOD_NOT_ALLOWED'],
  ]);
  expect(passesOnTrial(verdictFailure({ code: 'EXPIRED', message: 'found', suggestion: 'x' }))).toBe(true);
});
