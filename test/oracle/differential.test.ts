import { expect, test } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { toCase } from './differential/cases.js';
import { run, type Difference } from './differential/run.js';
import { LIBRARIES, SERVICES } from './differential/targets.js';

const services = SERVICES.filter(({ name }) => name !== 'service, tiny cache').map((kind) => ({
  ...kind,
  workerThreads: 1,
}));

// A short run, of half a minute. Twenty seeds reached each count below. The long run is `npm run differential`.
test('the library and the service give the verdicts that the specification gives', async () => {
  const differences: Difference[] = [];
  const result = await run({
    verdicts: 25_600,
    seed: 20_261_122,
    // One for each world: each starts services of its own.
    epoch: 4_300,
    kinds: [...LIBRARIES, ...services],
    areServicesShared: true,
    createVerifier,
    onDifference: (difference) => void differences.push(difference),
  });
  expect(differences.slice(0, 3).map(toCase)).toEqual([]);
  expect(result.verdicts).toBeGreaterThanOrEqual(25_600);
  // Without this, a generator that no longer reaches the checks would pass too.
  expect(result.codes.size).toBeGreaterThan(20);
  expect(result.codes.get('valid')).toBeGreaterThan(50);
  expect(result.codes.get('APPROVAL_REQUIRED')).toBeGreaterThan(0);
}, 300_000);
