import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { askOracle, askOracleGate, type Expected, type GateAsked, type Profile } from './oracle.js';
import { GATE_CATALOGUE } from '../../src/gate/codes.js';
import { CATALOGUE } from '../../src/index.js';
import { startService } from '../support/service.js';

interface Vector {
  readonly id: string;
  readonly kind: 'verify' | 'gate' | 'replay' | 'usage';
  readonly profile: string;
  readonly now: number;
  readonly request: string;
  readonly expected: Expected;
}

interface GateVector extends Omit<Vector, 'request' | 'expected'> {
  readonly request: GateAsked;
  readonly steps: readonly { readonly request: GateAsked; readonly now: number }[];
  readonly expected: { readonly decisions?: unknown };
}

const { profiles, vectors: all } = JSON.parse(
  readFileSync(new URL('./vectors.json', import.meta.url), 'utf8'),
) as { profiles: Record<string, Profile>; vectors: readonly (Vector | GateVector)[] };
const vectors = all.filter((vector): vector is Vector => vector.kind === 'verify');
const gateVectors = all.filter((vector): vector is GateVector => vector.kind !== 'verify');

const run = promisify(execFile);
const runner = async (...args: string[]) => {
  const { stdout } = await run(process.execPath, ['test/conformance/run.mjs', ...args]);
  return stdout;
};

test('the oracle gives the answers of the vectors', () => {
  for (const { id, profile, now, request, expected } of vectors)
    expect([id, askOracle(profiles[profile] as Profile, request, now)]).toEqual([id, expected]);
});

test('the oracle gives the decisions of the vectors for a gate', () => {
  for (const { id, kind, profile, now, request, steps, expected } of gateVectors) {
    const asked = kind === 'gate' ? [{ request, now }] : steps;
    const memory = { verify: 'nothing', gate: 'nothing', replay: 'invocations', usage: 'usage' } as const;
    const decisions = askOracleGate(profiles[profile] as Profile, asked, memory[kind]);
    expect([id, kind === 'gate' ? decisions[0] : { decisions }]).toEqual([id, expected]);
  }
  const codes = new Set(gateVectors.map(({ expected }) => (expected as { code?: string }).code));
  const missing = GATE_CATALOGUE.map(({ code }) => code).filter((code) => !codes.has(code));
  // Codes without vectors: a vector cannot make a verifier unavailable, has no table of routes, no answer that starts a task,
  // nobody who says no, and is short.
  const without = [
    'APPROVAL_DENIED',
    'BODY_TIMEOUT',
    'BODY_TOO_LARGE',
    'TASK_MISMATCH',
    'TOOL_MISMATCH',
    'UNKNOWN_ROUTE',
    'VERIFIER_UNAVAILABLE',
  ];
  expect(missing.sort()).toEqual(without);
});

test('there is a vector for nearly every code', () => {
  const codes = new Set(vectors.map(({ expected }) => expected.code));
  const missing = CATALOGUE.map(({ code }) => code).filter((code) => !codes.has(code));
  // These depend on earlier questions, or on what servers say, which a vector of this kind does not contain.
  expect(missing.filter((code) => !/REPLAY|STALE|LIMIT|RESOLUTION/.test(code))).toEqual([]);
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
});

test('the library gives them, as a program that the runner drives', async () => {
  const answered = await runner('--command', 'node test/conformance/drs-verify.mjs', '--gate', '--usage');
  expect(answered).toMatch(/^(\d+) of \1 vectors hold/);
  expect(Number(answered.split(' ')[0])).toBe(all.length);
});

test('the service gives them over HTTP', async () => {
  const service = await startService({ DRS_ADMIN_TOKEN: 'conformance-token', GATE_REPLAY: 'off' });
  try {
    const plain = await runner('--url', service.url, '--gate');
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

test('the runner needs only Node and the vectors beside it, and a verifier that takes everything fails', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-vectors-'));
  const command = `node -e "require('readline').createInterface({input:process.stdin}).on('line',()=>console.log('{\\"valid\\":true}'))"`;
  try {
    for (const file of ['run.mjs', 'vectors.json'])
      copyFileSync(`test/conformance/${file}`, path.join(folder, file));
    const copy = (...args: string[]) => run(process.execPath, ['run.mjs', ...args], { cwd: folder });
    expect((await copy('--help')).stdout).toContain('run.mjs --url <address> | --command <command>');
    await expect(copy('--command', command)).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('FAILED') as string,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
