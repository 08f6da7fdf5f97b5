import { afterAll, expect, test } from 'vitest';
import { drive } from './drive.js';
import * as gate from './gate.fuzz.js';
import * as http from './http.fuzz.js';
import * as pipeline from './pipeline.fuzz.js';
import * as policy from './policy.fuzz.js';
import * as revocation from './revocation.fuzz.js';
import * as texts from './texts.fuzz.js';

// The long run is `npm run fuzz`; this is a moment of each target, so that a target that no longer runs is noticed. Texts
// of megabytes, for which time and memory are measured, would take most of it: here they are shorter.
const targets = [texts, policy, gate, revocation, pipeline, http].flatMap((file) => file.targets);

afterAll(async () => {
  await pipeline.close();
  await http.close();
});

test.each(targets.map((target) => [target.name, target] as const))('%s holds', async (_, target) => {
  const { executions, failures } = await drive(target, {
    milliseconds: 20,
    seed: 20_261_122,
    longestGrown: 100_000,
  });
  expect(failures).toEqual([]);
  expect(executions).toBeGreaterThan(0);
});
