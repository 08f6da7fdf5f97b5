import { describe, expect, it } from 'vitest';
import { editDistance, nearestName } from '../../src/protocol/nearest-name.js';

const distances = (one: string, other: string) => [editDistance(one, other), editDistance(other, one)];

const pairs = (text: string) => text.split(', ').map((pair) => pair.split(' ') as [string, string]);

describe('one edit', () => {
  it.each([
    ['', 'a'],
    ...pairs('abc abcd, abc xabc, abc abxc, abb abbb, abc abd, abc xbc, abc bac, abc acb'),
  ])('lies between %j and %j', (one, other) => expect(distances(one, other)).toEqual([1, 1]));

  it.each([
    ...[['', 'ab'] as const, ...pairs('abc abcde, abc xabcy, abcd acdx, abcd axbx')],
    // Two neighbours are not swapped, or more than these differ.
    ...pairs('abcd axyd, abcd acxd, abcd axbd, abcd acbx, abcd badc, abcd bxcd, aabc abcx, abcx bcxyz'),
  ])('is not what lies between %j and %j', (one, other) =>
    expect(Math.min(...distances(one, other))).toBeGreaterThan(1),
  );
});

describe('the edit distance', () => {
  it.each([
    ['', '', 0],
    ['abc', 'abc', 0],
    ['kitten', 'sitting', 3],
    ['abcd', 'badc', 2],
    ['', 'abc', 3],
  ])('between %j and %j is %d', (one, other, distance) => {
    expect(distances(one, other)).toEqual([distance, distance]);
  });

  it('may cost less for what is added than for what is left out', () => {
    expect(editDistance('tool', 'tools', 0.25)).toBe(0.25);
    expect(editDistance('tools', 'tool', 0.25)).toBe(1);
  });
});

describe('the nearest name', () => {
  const names = ['allowed_tools', 'max_cost_usd', 'max_calls'];

  it.each([
    ['maxCostUsd', 'max_cost_usd'],
    ['max-cost', 'max_cost_usd'],
    ['tools', 'allowed_tools'],
    ['max_clals', 'max_calls'],
    ['ma', null],
    ['colour', null],
    ['x'.repeat(65), null],
  ])('to %j is %j', (name, nearest) => expect(nearestName(name, names)).toBe(nearest));
});
