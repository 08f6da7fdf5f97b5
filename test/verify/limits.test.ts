import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/protocol/json.js';
import { costMicroUsdOf, limitReached, limitsOf } from '../../src/verify/limits.js';
import { makeChain, NOW, sha256 } from '../support/chain.js';
import { receiptsOf } from '../support/receipts.js';

/** The limits of a chain with these policies, and the digests of its receipts. */
function countedIn(policies: readonly object[], claims: object = {}) {
  const overrides = policies.map((policy) => ({ policy, ...claims }));
  const { receipts } = makeChain(policies.length, Object.fromEntries(Object.entries(overrides)));
  return { counted: limitsOf(receiptsOf(receipts)), digests: receipts.map(sha256) };
}

describe('the counted limits of a chain', () => {
  it('are those of each receipt with a limit, root first', () => {
    const { counted, digests } = countedIn([
      { max_calls: 100, allowed_tools: ['search'] },
      { allowed_tools: ['search'], max_cost_usd: 5, max_delegations: 2, other: 1 },
      { max_total_cost_usd: 2.5000001 },
      { max_total_cost_usd: 1, max_calls: 0 },
    ]);
    const window = { nbf: NOW - 60, exp: NOW + 3600 };
    expect(counted).toEqual([
      { level: 0, receipt: digests[0], maxCalls: 100, maxTotalMicroUsd: null, ...window },
      { level: 2, receipt: digests[2], maxCalls: null, maxTotalMicroUsd: 2_500_000, ...window },
      { level: 3, receipt: digests[3], maxCalls: 0, maxTotalMicroUsd: 1_000_000, ...window },
    ]);
  });

  it('are none if no receipt has one, and have no end if the receipt has none', () => {
    expect(countedIn([{ max_calls: null, max_total_cost_usd: null }, {}]).counted).toEqual([]);
    expect(countedIn([{ max_calls: 1 }], { exp: null, drs_root_type: 'service' }).counted).toMatchObject([
      { exp: null },
    ]);
  });

  it('are one for each of 16 levels', () => {
    const { counted } = countedIn(Array.from({ length: 16 }, (_, at) => ({ max_calls: 2 ** 53 - 1 - at })));
    expect(counted.map(({ level, maxCalls }) => [level, maxCalls])).toEqual(
      Array.from({ length: 16 }, (_, at) => [at, 2 ** 53 - 1 - at]),
    );
  });
});

it.each<[args: JsonObject, micro: number | null]>([
  [{ estimated_cost_usd: 0.1 }, 100_000],
  [{ estimated_cost_usd: 0 }, 0],
  [{ estimated_cost_usd: 1e-7 }, 1],
  [{ estimated_cost_usd: 1e9 }, 1_000_000_000_000_000],
  [{}, null],
  [{ estimated_cost_usd: 1e9 + 1 }, null],
  [{ estimated_cost_usd: 1e308 }, null],
  [{ estimated_cost_usd: -1 }, null],
  [{ estimated_cost_usd: '1' }, null],
  [{ estimated_cost_usd: null }, null],
])('a call with %j costs %s micro-dollars', (args, micro) => {
  expect(costMicroUsdOf(args, null)).toBe(micro);
});

describe('the refusal of a call beyond a limit', () => {
  it('says what is used, what this call asks, and when the limit ends', () => {
    const exp = 1_700_000_000;
    expect(limitReached({ level: 1, member: 'max_calls', limit: 5, used: 5, asked: 1, exp })).toMatchObject({
      code: 'LIMIT_REACHED',
      block: 'replay',
      message:
        'Receipt 1: this call takes 1 of policy.max_calls, expected at most 0: 5 of 5 are used, and the limit ends at 1700000000 (2023-11-14T22:13:20Z)',
    });
    const member = 'max_total_cost_usd';
    expect(
      limitReached({ level: 0, member, limit: 5_000_000, used: 4_900_000, asked: 250_000, exp: null })
        .message,
    ).toBe(
      'Receipt 0: this call takes 0.25 of policy.max_total_cost_usd, expected at most 0.1: 4.9 of 5 are used, and the limit has no end',
    );
  });

  it('never says that less than nothing is left', () => {
    const beyond = { level: 0, member: 'max_calls', limit: 5, used: 6, asked: 1, exp: null } as const;
    expect(limitReached(beyond).message).toContain('expected at most 0: 6 of 5 are used');
  });
});
