import { expect, test } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { toCase } from './differential/cases.js';
import { run, type Difference } from './differential/run.js';
import { LIBRARIES, SERVICES } from './differential/targets.js';

const services = SERVICES.filter(({ name }) => name !== 'service, tiny cache').map((kind) => ({
  ...kind,
  workerThreads: 1,
}));

// A short run, of a few seconds of processor time. The long run is `npm run differential`.
test('the library and the service give the verdicts that the specification gives', async () => {
  const differences: Difference[] = [];
  const result = await run({
    verdicts: 6_400,
    seed: 20_261_122,
    // One for each world: each starts services of its own.
    epoch: 1_600,
    kinds: [...LIBRARIES, ...services],
    areServicesShared: true,
    createVerifier,
    onDifference: (difference) => void differences.push(difference),
  });
  expect(differences.slice(0, 3).map(toCase)).toEqual([]);
  expect(result.verdicts).toBeGreaterThanOrEqual(6_400);
  // Without this, a generator that no longer reaches the checks would pass too.
  expect(result.codes.size).toBeGreaterThan(20);
  expect(result.codes.get('valid')).toBeGreaterThan(50);
}, 300_000);
