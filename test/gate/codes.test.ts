import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { GATE_CATALOGUE, gateFailure } from '../../src/gate/codes.js';

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
    GATE_CATALOGUE.map((row) => [
      row.code,
      [row.status, ...('rpcStatus' in row ? [row.rpcStatus] : [])].map(String),
    ]),
  );
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
