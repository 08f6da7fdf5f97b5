import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/protocol/json.js';
import { findPolicyEscalation } from '../../src/verify/attenuation.js';

describe('findPolicyEscalation', () => {
  it.each<[string, JsonObject, JsonObject, object | null]>([
    ['a lower limit', { max_cost_usd: 5 }, { max_cost_usd: 4 }, null],
    [
      'a higher limit',
      { max_cost_usd: 5 },
      { max_cost_usd: 9 },
      { member: 'max_cost_usd', claimed: 9, allowed: 5 },
    ],
    ['a dropped limit', { max_calls: 5 }, {}, { member: 'max_calls', claimed: undefined, allowed: 5 }],
    ['an added limit', {}, { max_calls: 5 }, null],
    ['an equal other member', { region: ['eu'] }, { region: ['eu'] }, null],
    [
      'another other member',
      { region: 'eu' },
      { region: 'us' },
      { member: 'region', claimed: 'us', allowed: 'eu' },
    ],
    ['an added other member', {}, { region: 'eu' }, null],
    ['a parent that cannot be read', { max_calls: 'x' }, { region: 'eu' }, null],
    ['a child that cannot be read', { region: 'eu' }, { max_calls: 'x' }, null],
  ])('compares %s', (_, parent, child, escalation) => {
    expect(findPolicyEscalation(parent, child)).toEqual(escalation);
  });
});
