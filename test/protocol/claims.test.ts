import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isCommandPath } from '../../src/protocol/claims.js';

it('takes a command path as its segments say', () => {
  const bySegments = (path: string) =>
    path.startsWith('/') &&
    path
      .slice(1)
      .split('/')
      .every((segment) => !['', '.', '..'].includes(segment));
  const path = fc
    .array(fc.constantFrom('/', '.', 'a', '..', '\n', 'é'), { maxLength: 8 })
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(path, (text) => {
      expect([text, isCommandPath(text)]).toEqual([text, bySegments(text)]);
    }),
    { numRuns: 3000 },
  );
  for (const value of [undefined, null, 1, ['/a'], {}]) expect(isCommandPath(value)).toBe(false);
});
