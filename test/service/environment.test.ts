import { describe, expect, it } from 'vitest';
import { findMisspelt } from '../../src/service/configuration/environment.js';
import { problemsOf } from './problems-of.js';

it.each(['on', 'off'])('a variable of an earlier version is refused, with what holds now: %s', (value) => {
  expect(problemsOf({ VERIFY_NATIVE: value })).toEqual([
    'VERIFY_NATIVE is no variable of drs-verify any more: unset it, and install with npm ci, which checks every package by its hash',
  ]);
});

describe('a misspelt variable', () => {
  const names = ['EIGHT_OF', 'SEVEN_7', 'TRUSTED_ROOTS'];

  it('is found where the name has 8 characters, and what it should be is said', () => {
    expect(findMisspelt({ EIGHT_OFF: '1', SEVEN_77: '1', TRUSTED_ROOT: 'x' }, names)).toEqual([
      'EIGHT_OFF is not a variable of drs-verify, expected EIGHT_OF: rename it, or unset it',
      'TRUSTED_ROOT is not a variable of drs-verify, expected TRUSTED_ROOTS: rename it, or unset it',
    ]);
  });

  it('is none where it is unset or blank, or one of ours', () => {
    expect(findMisspelt({ TRUSTED_ROOT: ' ', EIGHT_OFF: undefined, EIGHT_OF: '1' }, names)).toEqual([]);
    expect(findMisspelt({ TRUSTED_ROOTS: 'x' }, [...names, 'TRUSTED_ROOT'])).toEqual([]);
  });
});
