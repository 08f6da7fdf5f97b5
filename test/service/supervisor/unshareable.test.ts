import { describe, expect, it } from 'vitest';
import { problemsOf } from '../problems-of.js';

const SHARED = [
  [{ PROCESSES: '3' }, 'PROCESSES is 3'],
  [{ SHARE_PORT: '1' }, 'SHARE_PORT is set'],
] as const;
const TOKEN = 'a-token-of-sixteen-and-more';

describe.each(SHARED)('%j refuses what each process would keep for itself', (several, said) => {
  const base = { ...several, GATE_REPLAY: 'redis' };

  it.each([
    [
      { GATE_REPLAY: '' },
      /^GATE_REPLAY is "memory", and .*would pass once in each; set GATE_REPLAY to redis/,
    ],
    [{ GATE_REPLAY: 'memory' }, /^GATE_REPLAY is "memory"/],
    [{ REPLAY_PROTECTION: 'memory' }, /^REPLAY_PROTECTION is "memory", and /],
    [{ REVOCATION_STORE_PATH: '/r' }, /^REVOCATION_STORE_PATH is set, and .*revocations import/],
    [{ REVOCATION_STORE: 'file', REVOCATION_STORE_PATH: '/r' }, /^REVOCATION_STORE_PATH is set, and /],
    [{ DRS_ADMIN_TOKEN: TOKEN }, /^REVOCATION_STORE is "memory", and .*set REVOCATION_STORE to redis/],
    [{ GRPC_PORT: '9090' }, /^GRPC_PORT is set, and .*only one process can listen/],
  ])('%j', (env, problem) => {
    const problems = problemsOf({ ...base, ...env });
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems[0]).toContain(`, and ${said}: `);
  });

  it('and nothing else', () => {
    expect(problemsOf(base)).toEqual([]);
    expect(problemsOf({ ...base, GATE_REPLAY: 'off' })).toEqual([]);
    const env = { REPLAY_PROTECTION: 'redis', REVOCATION_STORE: 'redis', DRS_ADMIN_TOKEN: TOKEN };
    expect(problemsOf({ ...base, ...env })).toEqual([]);
  });
});

it('lets one process keep everything for itself', () => {
  expect(problemsOf({ PROCESSES: '1', GATE_REPLAY: 'memory', REPLAY_PROTECTION: 'memory' })).toEqual([]);
});
