import { expect, it } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { warningsAboutMemory } from '../../src/service/configuration/memory-needs.js';
import { hasProcess, startService } from '../support/service.js';

const MIB = 1024 * 1024;
const warnings = (env: Record<string, string>, heapMib: number) =>
  warningsAboutMemory(readConfiguration(env), heapMib * MIB);

it('warns where the limits together allow more than the heap', () => {
  expect(warnings({}, 2048)).toEqual([]);
  // 64 for the cache, 128 for bodies, 286 for a million invocations of the gate, 64 for the rest.
  expect(warnings({}, 543)).toEqual([]);
  expect(warnings({}, 541)).toEqual([
    expect.stringMatching(
      /^the limits allow 542 MiB .*RECEIPT_CACHE_BYTES 64 MiB, MAX_BODY_MEMORY 128 MiB, REPLAY_MAX_ENTRIES 286 MiB/,
    ),
  ]);
  expect(warnings({ GATE_REPLAY: 'redis' }, 256)).toEqual([]);
  expect(warnings({ REPLAY_PROTECTION: 'memory' }, 543)).toHaveLength(1);
  expect(warnings({ REPLAY_PROTECTION: 'memory', REPLAY_MAX_ENTRIES: '100000' }, 543)).toEqual([]);
});

it.runIf(hasProcess)('is logged at the start', async () => {
  const service = await startService({ NODE_OPTIONS: '--max-old-space-size=200', WORKER_THREADS: '0' });
  const lines = service.log.filter(({ level }) => level === 40);
  await service.stop();
  expect(lines.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(/^the limits allow 542 MiB/));
});
