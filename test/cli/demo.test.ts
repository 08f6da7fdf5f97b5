import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { MAIN } from './drs.js';

it('the demo tells its story to the expected end, whatever is configured around it', () => {
  const env = { PATH: process.env['PATH'], TRUSTED_ROOTS: 'nobody', PORT: '1', MAX_CHAIN_DEPTH: '1' };
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'demo'], { env, encoding: 'utf8' });
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
  expect(stdout).toMatch(/All verdicts were as expected\.\n$/);
  expect(status).toBe(0);
  const expected = readFileSync(new URL('./demo.txt', import.meta.url), 'utf8');
  expect(withoutChance(stdout)).toBe(withoutChance(expected));
});

/** Without what differs from run to run, and what the file shortens: DIDs, digests, signatures, the port. */
function withoutChance(text: string): string {
  return text
    .replace(/did:key:z\w+…?/g, 'did:key:z')
    .replace(/sha256:\w+…?/g, 'sha256:')
    .replace(/signature is "[\w-]+…?/g, 'signature is "')
    .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1');
}
