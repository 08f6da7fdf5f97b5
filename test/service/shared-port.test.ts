import { expect, it } from 'vitest';
import { problemsOf } from './problems-of.js';

const TOKEN = 'a-token-of-sixteen-and-more';

it.each([
  [{ GATE_REPLAY: '' }, /GATE_REPLAY is "memory": set it to redis, or to off/],
  [{ GATE_REPLAY: 'memory' }, /GATE_REPLAY is "memory"/],
  [{ REPLAY_PROTECTION: 'memory' }, /REPLAY_PROTECTION is "memory"/],
  [{ REVOCATION_STORE_PATH: '/r' }, /REVOCATION_STORE is "file": .*revocations import/],
  [{ REVOCATION_STORE: 'file', REVOCATION_STORE_PATH: '/r' }, /REVOCATION_STORE is "file"/],
  [{ DRS_ADMIN_TOKEN: TOKEN }, /REVOCATION_STORE is "memory": set it to redis, or unset DRS_ADMIN_TOKEN/],
])('SHARE_PORT refuses what each instance would keep for itself: %j', (env, problem) => {
  expect(problemsOf({ SHARE_PORT: '1', GATE_REPLAY: 'redis', ...env })).toEqual([
    expect.stringMatching(problem),
  ]);
  expect(problemsOf({ GATE_REPLAY: 'redis', ...env })).toEqual([]);
});

it.each([
  { GATE_REPLAY: 'off' },
  { GATE_REPLAY: 'redis' },
  {
    GATE_REPLAY: 'redis',
    REPLAY_PROTECTION: 'redis',
    REVOCATION_STORE: 'redis',
    DRS_ADMIN_TOKEN: TOKEN,
    GRPC_PORT: '9090',
  },
])('SHARE_PORT takes what instances share, and what keeps nothing: %j', (env) => {
  expect(problemsOf({ SHARE_PORT: '1', ...env })).toEqual([]);
});
