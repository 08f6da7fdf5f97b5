import { expect, it } from 'vitest';
import { buildTree } from '../../bench/compare/trees.js';

it('says which version there is none of', () => {
  expect(() => buildTree('no-such-version', 'unused')).toThrow(
    'there is no commit or folder no-such-version, expected a version of this project',
  );
});
