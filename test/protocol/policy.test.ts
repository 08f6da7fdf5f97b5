import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/protocol/json.js';
import { toMicroUsd } from '../../src/protocol/money.js';
import { MAX_POLICY_LIST, readPolicy } from '../../src/protocol/policy.js';

/** The one limit of a policy. */
function limitOf(policy: JsonObject) {
  const [first] = readPolicy(policy).limits ?? [];
  if (first === undefined) throw new Error('the policy has no limit');
  return first;
}

describe('a limit', () => {
  it.each<[JsonObject, JsonValue[], JsonValue[]]>([
    [{ allowed_tools: ['a', 'b'] }, ['a', 'b'], ['c', '', '*', 1, null, ['a']]],
    [{ allowed_tools: ['*'] }, ['a', '*'], [1, null]],
    [{ allowed_tools: [] }, [], ['', 'a']],
    [{ max_cost_usd: 2 }, [0, 1.5, 2], [2.01, -1, '1', null]],
    [{ max_cost_usd: 0 }, [0], [0.01]],
    [{ max_total_cost_usd: 2 }, [0, -0, 1.5, 2], [2.000001, 2.0000000001, -1, '1', null, 1e308, Infinity]],
    // Micro-dollars: what a call costs is rounded up, the limit down.
    [{ max_total_cost_usd: 0 }, [0], [1e-7, Number.MIN_VALUE]],
    [{ max_total_cost_usd: 9.9e-7 }, [0], [9.9e-7, 1e-7]],
    [{ max_total_cost_usd: 1.9e-6 }, [1e-6, 1e-7], [1.1e-6, 1.9e-6]],
    [{ max_total_cost_usd: 0.3 }, [0.3, 0.29999999999999993], [0.1 + 0.2]],
    [{ max_total_cost_usd: 1e9 }, [1e9, 999_999_999.9999999], [1_000_000_000.0000001, 2 ** 53]],
    [{ pii_access: true }, [true, false, 'x'], []],
    [{ pii_access: false }, [false], [true, null, 0, 'no']],
    [
      { allowed_resources: ['file:///a/*', 'file:///b'] },
      ['file:///a/x', 'file:///b'],
      ['file:///a', 'file:///bc', 1],
    ],
    [{ allowed_resources: ['file:///a/bc'] }, ['file:///a/bc'], ['file:///a/bd', 'file:///a/']],
    [{ allowed_resources: ['*'] }, ['file:///a', 'a/../b'], [1]],
  ])('of %j allows %j and not %j', (policy, allowed, refused) => {
    const { member, value } = limitOf(policy);
    for (const one of allowed) expect([one, member.kind.allows(value, one)]).toEqual([one, true]);
    for (const one of refused) expect([one, member.kind.allows(value, one)]).toEqual([one, false]);
  });

  it('of money compares micro-dollars, of a cost rounded up with the budget rounded down', () => {
    const double = fc.double({ min: 0, max: 1e9, noNaN: true });
    const amount = fc.oneof(
      double,
      fc.nat().map((micro) => micro / 1e6),
    );
    fc.assert(
      fc.property(amount, amount, fc.constantFrom(0, 1e-7, -1e-7, 1e-6, -1e-6), (budget, other, by) => {
        const { member, value } = limitOf({ max_total_cost_usd: budget });
        for (const cost of [other, Math.min(1e9, Math.max(0, budget + by))])
          expect(member.kind.allows(value, cost)).toBe(toMicroUsd(cost, 'up') <= toMicroUsd(budget, 'down'));
      }),
      { numRuns: 2000 },
    );
  });

  it.each<[JsonObject, JsonObject, boolean]>([
    [{ allowed_tools: ['a', 'b'] }, { allowed_tools: ['b'] }, true],
    [{ allowed_tools: ['a'] }, { allowed_tools: ['a', 'b'] }, false],
    [{ max_cost_usd: 2 }, { max_cost_usd: 2 }, true],
    [{ max_cost_usd: 2 }, { max_cost_usd: 3 }, false],
    [{ max_total_cost_usd: 2 }, { max_total_cost_usd: 2 }, true],
    [{ max_total_cost_usd: 2 }, { max_total_cost_usd: 2.0000000001 }, false],
    [{ max_delegations: 2 }, { max_delegations: 2 }, true],
    [{ max_delegations: 2 }, { max_delegations: 3 }, false],
    [{ pii_access: false }, { pii_access: false }, true],
    [{ pii_access: false }, { pii_access: true }, false],
    [{ allowed_resources: ['a/*'] }, { allowed_resources: ['a/b', 'a/c/*'] }, true],
    [{ allowed_resources: ['a/*'] }, { allowed_resources: ['*'] }, false],
    [{ allowed_resources: ['a/*'] }, { allowed_resources: ['a/'] }, true],
    [{ allowed_resources: ['a/b'] }, { allowed_resources: ['a/c'] }, false],
    [{ allowed_resources: ['undefined/*'] }, { allowed_resources: ['undefined/a'] }, true],
    [{ allowed_resources: ['a'] }, { allowed_resources: ['undefined'] }, false],
    [{ allowed_resources: ['a', '*'] }, { allowed_resources: ['b', 'c/../d', '*'] }, true],
    [{ allowed_resources: ['a', ''] }, { allowed_resources: ['b'] }, false],
  ])('of %j over one of %j: contains it is %s', (parent, child, expected) => {
    const { member, value } = limitOf(parent);
    expect(member.kind.contains(value, limitOf(child).value)).toBe(expected);
  });

  it.each<[JsonObject, boolean]>([
    [{ allowed_tools: ['a', '*'] }, true],
    [{ allowed_resources: ['*'] }, true],
    [{ write_access: true }, true],
    [{ write_access: false }, false],
    [{ allowed_tools: ['a'] }, false],
    [{ allowed_resources: ['a/*'] }, false],
    [{ max_calls: 2 ** 53 - 1 }, false],
  ])('of %j is open: %s', (policy, isOpen) => expect(limitOf(policy).isOpen).toBe(isOpen));
});

describe('a policy', () => {
  it.each<[JsonObject, string]>([
    [{ allowed_tools: 'a' }, 'an array of at most 4096 strings'],
    [{ allowed_tools: ['a', 1] }, 'an array of at most 4096 strings'],
    [{ allowed_tools: Array<string>(MAX_POLICY_LIST + 1).fill('a') }, 'an array of at most 4096 strings'],
    [{ max_cost_usd: '1' }, 'a finite number of at least 0'],
    [{ max_cost_usd: -0.01 }, 'a finite number of at least 0'],
    [{ max_calls: 1.5 }, 'an integer of at least 0'],
    [{ max_calls: -1 }, 'an integer of at least 0'],
    [{ max_calls: 2 ** 53 }, 'an integer of at least 0'],
    [{ max_delegations: 0.5 }, 'an integer of at least 0'],
    [{ max_delegations: '0' }, 'an integer of at least 0'],
    [{ max_delegations: 1e308 }, 'an integer of at least 0'],
    [{ max_total_cost_usd: '1' }, 'a number from 0 to 1000000000'],
    [{ max_total_cost_usd: -0.01 }, 'a number from 0 to 1000000000'],
    [{ max_total_cost_usd: 1_000_000_000.0000001 }, 'a number from 0 to 1000000000'],
    [{ max_total_cost_usd: 1e308 }, 'a number from 0 to 1000000000'],
    [{ pii_access: 'no' }, 'a boolean'],
    [{ write_access: 0 }, 'a boolean'],
  ])('is refused with a member of the wrong type (%#)', (policy, expected) => {
    const [[name, found]] = Object.entries(policy) as [[string, JsonValue]];
    expect(readPolicy({ unknown: 1, ...policy })).toEqual({ defect: { name, found, expected } });
  });

  it('has a limit for each known member that is not null, in a fixed order', () => {
    const policy = {
      allowed_data_classes: ['public'],
      write_access: null,
      max_calls: 0,
      max_delegations: 0,
      max_total_cost_usd: 0,
      other: ['x'],
      allowed_tools: Array<string>(MAX_POLICY_LIST).fill('a'),
    };
    expect(readPolicy(policy).limits?.map(({ member }) => member.name)).toEqual([
      'allowed_tools',
      'max_total_cost_usd',
      'max_calls',
      'max_delegations',
      'allowed_data_classes',
    ]);
  });

  it('without a known member has no limit and no defect', () => {
    expect(readPolicy({ unknown: 1 })).toEqual({ limits: [] });
    expect(readPolicy({ unknown: 1, max_calls: null })).toEqual({ limits: [] });
  });
});
