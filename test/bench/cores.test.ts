import { describe, expect, it } from 'vitest';
import { parseCores, pinned, splitOf } from '../../bench/run/programs.js';

describe('the cores of an open loop', () => {
  it.each([
    [null, null],
    [[0], null],
    [[0, 1], { service: [0], generator: [1] }],
    [[2, 3, 6], { service: [2, 3], generator: [6] }],
    [[0, 1, 2, 3, 4, 5, 6, 7], { service: [0, 1, 2, 3, 4, 5], generator: [6, 7] }],
  ])('of %j are %j', (cores, expected) => {
    expect(splitOf(cores)).toEqual(expected);
  });

  it('are read from lists of ranges', () => {
    expect(parseCores('0-2,5,8-9\n')).toEqual([0, 1, 2, 5, 8, 9]);
  });

  it('are set by taskset, or left alone', () => {
    expect(pinned([1, 3], 'node', ['a.js'])).toEqual(['taskset', ['-c', '1,3', 'node', 'a.js']]);
    expect(pinned(null, 'node', ['a.js'])).toEqual(['node', ['a.js']]);
  });
});
