import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { copyState } from '../../src/revocation/lists/status-list-cache.js';

const FETCHED = 1_000_000;
const limits = { ttlMs: 100, maxStaleMs: 50 };
const stateAt = (age: number, validFor = Infinity) =>
  copyState({ fetchedAt: FETCHED, validUntilMs: FETCHED + validFor }, FETCHED + age, limits);

describe('the state of a copy', () => {
  test.each([
    [0, 'fresh'],
    [79, 'fresh'],
    [80, 'refresh_due'],
    [99, 'refresh_due'],
    [100, 'stale'],
    [149, 'stale'],
    [150, 'unusable'],
    [-1, 'unusable'],
    [-1_000_000, 'unusable'],
  ])('%i ms after its fetch: %s', (age, state) => {
    expect(stateAt(age)).toBe(state);
  });

  test.each([
    [39, 50, 'fresh'],
    [40, 50, 'refresh_due'],
    [49, 50, 'refresh_due'],
    [50, 50, 'unusable'],
    [119, 120, 'stale'],
    [120, 120, 'unusable'],
    [0, 0, 'unusable'],
  ])('%i ms after its fetch, of a list that was then valid for %i ms: %s', (age, validFor, state) => {
    expect(stateAt(age, validFor)).toBe(state);
  });

  test('without staleness it is unusable at the end of its TTL', () => {
    const copy = { fetchedAt: 0, validUntilMs: Infinity };
    const states = [99, 100].map((now) => copyState(copy, now, { ttlMs: 100, maxStaleMs: 0 }));
    expect(states).toEqual(['refresh_due', 'unusable']);
    expect(copyState(null, 0, limits)).toBe('unusable');
  });

  test('only gets worse with time', () => {
    const order = ['fresh', 'refresh_due', 'stale', 'unusable'];
    fc.assert(
      fc.property(fc.nat(200), fc.nat(200), fc.nat(300), (age, more, validFor) => {
        const [before, after] = [stateAt(age, validFor), stateAt(age + more, validFor)];
        expect(order.indexOf(after)).toBeGreaterThanOrEqual(order.indexOf(before));
      }),
    );
  });
});
