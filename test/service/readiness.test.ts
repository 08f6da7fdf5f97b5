import { describe, expect, it } from 'vitest';
import type { Configuration } from '../../src/service/configuration/configuration.js';
import { readinessOf } from '../../src/service/core.js';

/** What `/readyz` says where something is missing, and `READY_WITHOUT` names something. */
function reasonOf(missing: string, named: string): string | null {
  const isOf = (prefix: string) => missing.startsWith(prefix);
  const core = {
    gatekeeper: { isLeaving: missing === 'shutting_down' },
    engine: {
      revocation: { unreadyReasons: () => (isOf('status') || isOf('revocation') ? [missing] : []) },
      replays: isOf('replay') ? { unreadyReason: missing } : null,
    },
    gate: { replays: isOf('gate') ? { unreadyReason: missing.replace('gate_', '') } : null },
  };
  // Readiness reads nothing else of a service.
  const { reasons, reason } = readinessOf(core as never, {
    readyWithout: [named] as Configuration['readyWithout'],
  });
  expect(reasons).toEqual([missing]);
  return reason;
}

const EXCUSED_BY: Record<string, readonly string[]> = {
  shutting_down: [],
  status_list_not_fetched: ['list'],
  status_list_stale: ['stale_list', 'list'],
  revocation_store_unreachable: ['revocations'],
  replay_store_unreachable: ['replay'],
  replay_store_evicts: ['replay'],
  replay_store_full: ['replay'],
  replay_store_clock: ['replay'],
  gate_replay_store_unreachable: ['replay'],
  gate_replay_store_evicts: ['replay'],
  gate_replay_store_full: ['replay'],
  gate_replay_store_clock: ['replay'],
};

describe('READY_WITHOUT', () => {
  for (const [missing, excuses] of Object.entries(EXCUSED_BY))
    it(`lets ${missing} count unless it names ${excuses.join(' or ') || 'nothing: always'}`, () => {
      for (const named of ['stale_list', 'list', 'revocations', 'replay', 'none'])
        expect([named, reasonOf(missing, named)]).toEqual([named, excuses.includes(named) ? null : missing]);
    });
});
