import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { gateWorldOf, type GateCase } from './differential/gate/cases.js';
import { runGates, type GateDifference } from './differential/gate/run.js';
import { replayGates } from './differential/gate/shrink.js';

const folder = new URL('gate-cases/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));

// Counterexamples that a run has found. They are kept, so that a fixed fault does not come back.
test.each(files)('%s gets the decision of the specification', async (name) => {
  const found = JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as GateCase;
  const difference = await replayGates({ world: gateWorldOf(found), steps: found.steps });
  expect(difference && { expected: difference.expected, actual: difference.actual }).toBeUndefined();
});

// The long run is `npm run differential:gate`.
test('every way to a gate gives the decisions that the specification gives', async () => {
  const differences: GateDifference[] = [];
  const result = await runGates({
    decisions: 600,
    seed: 20_261_127,
    epoch: 200,
    onDifference: (difference) => void differences.push(difference),
  });
  expect(
    differences.slice(0, 3).map(({ way, expected, actual, request }) => ({ way, expected, actual, request })),
  ).toEqual([]);
  // Without this, a generator that no longer reaches the checks would pass too.
  expect(result.lines.size).toBeGreaterThan(20);
  expect(result.lines.get('allow')).toBeGreaterThan(10);
  for (const code of ['403 UNKNOWN_ROUTE', '400 RESERVED_ARGUMENT'])
    expect(result.lines.get(`deny ${code}`), code).toBeGreaterThan(0);
});
