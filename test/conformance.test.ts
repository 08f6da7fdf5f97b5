import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { askOracle, type Expected, type Profile } from '../conformance/oracle.js';
import { CATALOGUE } from '../src/index.js';
import { startService } from './support/service.js';

interface Vector {
  readonly id: string;
  readonly profile: string;
  readonly now: number;
  readonly request: string;
  readonly expected: Expected;
}

const { profiles, vectors } = JSON.parse(
  readFileSync(new URL('../conformance/vectors.json', import.meta.url), 'utf8'),
) as { profiles: Record<string, Profile>; vectors: readonly Vector[] };

const run = promisify(execFile);
const runner = async (...args: string[]) => {
  const { stdout } = await run(process.execPath, ['conformance/run.mjs', ...args]);
  return stdout;
};

test('the oracle gives the answers of the vectors', () => {
  for (const { id, profile, now, request, expected } of vectors)
    expect([id, askOracle(profiles[profile] as Profile, request, now)]).toEqual([id, expected]);
});

test('there is a vector for nearly every code', () => {
  const codes = new Set(vectors.map(({ expected }) => expected.code));
  const missing = CATALOGUE.map(({ code }) => code).filter((code) => !codes.has(code));
  // Replay depends on what was asked before, which a vector does not say.
  expect(missing.filter((code) => !/REPLAY|STALE/.test(code))).toEqual([]);
  expect(new Set(vectors.map(({ id }) => id)).size).toBe(vectors.length);
});

test('the library gives them, as a program that the runner drives', async () => {
  expect(await runner('--command', 'node conformance/drs-verify.mjs')).toMatch(/^(\d+) of \1 vectors hold/);
});

test('the service gives them over HTTP', async () => {
  const service = await startService({ DRS_ADMIN_TOKEN: 'conformance-token' });
  try {
    const plain = await runner('--url', service.url);
    expect(plain).toMatch(/^(\d+) of \1 vectors hold/);
    expect(Number(plain.split(' ')[0])).toBeGreaterThan(30);
    const revoked = await runner(
      '--url',
      service.url,
      '--profile',
      'revoked',
      '--admin-token',
      'conformance-token',
    );
    expect(revoked).toMatch(/^(\d+) of \1 vectors hold/);
  } finally {
    await service.stop();
  }
});

test('a verifier that takes everything fails', async () => {
  const command = `node -e "require('readline').createInterface({input:process.stdin}).on('line',()=>console.log('{\\"valid\\":true}'))"`;
  await expect(runner('--command', command)).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining('FAILED') as string,
  });
});
