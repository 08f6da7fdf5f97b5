import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('every fault that scripts/planted-faults.mjs plants still has its place and its test', () => {
  const script = fileURLToPath(new URL('../../scripts/planted-faults.mjs', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  expect([stderr, status]).toEqual(['', 0]);
});
