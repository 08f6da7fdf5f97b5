import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { BUCKETS, DurationHistogram } from '../../src/server/duration-histogram.js';

const NAME = 'requests_seconds';
const ENDPOINTS = ['verify', 'healthz', 'other'] as const;
const lines = async (registry: Registry) => (await registry.metrics()).split('\n').sort();

it("shows what prom-client's own histogram shows", async () => {
  const seconds = fc.oneof(
    fc.constantFrom(0, ...BUCKETS),
    fc.double({ min: 0, max: 0.02, noNaN: true }),
    fc.double({ min: 0, max: 100, noNaN: true }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom(...ENDPOINTS), seconds)), async (durations) => {
      const [registry, theirs] = [new Registry(), new Registry()];
      const histogram = new DurationHistogram(NAME, 'How long it took', ENDPOINTS, registry);
      const oracle = new Histogram({
        name: NAME,
        help: 'How long it took',
        labelNames: ['endpoint'],
        buckets: BUCKETS,
        registers: [theirs],
      });
      for (const [endpoint, duration] of durations) {
        histogram.observe(endpoint, duration);
        oracle.observe({ endpoint }, duration);
      }
      expect(await lines(registry)).toEqual(await lines(theirs));
    }),
  );
});
