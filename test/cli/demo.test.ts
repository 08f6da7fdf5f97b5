import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const DEMO = fileURLToPath(new URL('../../dist/cli/demo.js', import.meta.url));

it('the demo tells its story to the expected end, whatever is configured around it', () => {
  const env = { PATH: process.env['PATH'], TRUSTED_ROOTS: 'nobody', PORT: '1', MAX_CHAIN_DEPTH: '1' };
  const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO], { env, encoding: 'utf8' });
  expect(stderr).toBe('');
  const verdicts = [...stdout.matchAll(/^ {2}((?:valid|invalid|refused)[\w, ]*?) {2}/gm)].map(
    ([, verdict]) => verdict,
  );
  expect(verdicts).toEqual([
    'valid, binding match',
    'valid, binding mismatch',
    'invalid CHAIN_BREAK',
    'invalid INVALID_SIGNATURE',
    'refused POLICY_ESCALATION',
    'invalid POLICY_ESCALATION',
    'invalid RECEIPT_REVOKED',
  ]);
  expect(stdout).toMatch(/Every verdict was the expected one\.\n$/);
  expect(status).toBe(0);
});
