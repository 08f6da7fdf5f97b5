import { expect, it } from 'vitest';
import { Entries } from '../../src/revocation/entries.js';
import { countTurns } from '../support/turns.js';

const DAY_MS = 86_400_000;

it('looks for entries that have run out some at a time, so that others have their turn', async () => {
  const entries = new Entries();
  for (let at = 0; at < 100_000; at++)
    entries.add({ target: `sha256:${at}`, reason: null, exp: at % 2 === 0 ? 1 : null, at: null });
  const sweeping = entries.sweep(3 * DAY_MS);
  // Who comes meanwhile waits for the same, and nobody looks twice in an hour.
  expect(entries.sweep(3 * DAY_MS + 1)).toBe(sweeping);
  expect(await countTurns(sweeping)).toBeGreaterThanOrEqual(9);
  expect(entries.size).toBe(50_000);
  expect(entries.sweep(3 * DAY_MS + 1)).toBeNull();
});
