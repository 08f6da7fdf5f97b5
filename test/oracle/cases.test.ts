import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { worldOf, type Case } from './differential/cases.js';
import { replay } from './differential/shrink.js';

const folder = new URL('cases/', import.meta.url);
const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.json')) : [];

// Counterexamples that a run has found. They are kept, so that a fixed fault does not come back.
test('there are cases', () => expect(files).not.toEqual([]));

test.each(files)('%s gives the verdict of the specification', async (name) => {
  const found = JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Case;
  const difference = await replay(
    found.steps,
    { target: found.target, world: worldOf(found) },
    createVerifier,
  );
  expect(difference && { expected: difference.expected, actual: difference.actual }).toBeUndefined();
});
