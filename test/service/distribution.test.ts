import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { Distribution, SECONDS, showHistogram } from '../../src/service/observe/distribution.js';

const NAME = 'requests_seconds';
const HELP = 'How long it took';
const ENDPOINTS = ['verify', 'healthz', 'other'] as const;
const lines = async (registry: Registry) => (await registry.metrics()).split('\n').sort();

const seconds = fc.oneof(
  fc.constantFrom(0, ...SECONDS),
  fc.double({ min: 0, max: 0.02, noNaN: true }),
  fc.double({ min: 0, max: 100, noNaN: true }),
);

it("shows what prom-client's own histogram shows, with a label", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom(...ENDPOINTS), seconds)), async (durations) => {
      const [registry, theirs] = [new Registry(), new Registry()];
      const rows = ENDPOINTS.map((endpoint) => ({
        labels: { endpoint },
        distribution: new Distribution(SECONDS),
      }));
      showHistogram(registry, NAME, HELP, rows);
      const oracle = new Histogram({
        name: NAME,
        help: HELP,
        labelNames: ['endpoint'],
        buckets: SECONDS,
        registers: [theirs],
      });
      for (const [endpoint, duration] of durations) {
        rows[ENDPOINTS.indexOf(endpoint)]?.distribution.observe(duration);
        oracle.observe({ endpoint }, duration);
      }
      expect(await lines(registry)).toEqual(await lines(theirs));
    }),
  );
});

it("shows what prom-client's own histogram shows, without a label and before anything was observed", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(seconds), async (durations) => {
      const [registry, theirs] = [new Registry(), new Registry()];
      const distribution = new Distribution(SECONDS);
      showHistogram(registry, NAME, HELP, [{ labels: {}, distribution }]);
      const oracle = new Histogram({ name: NAME, help: HELP, buckets: SECONDS, registers: [theirs] });
      for (const duration of durations) {
        distribution.observe(duration);
        oracle.observe(duration);
      }
      expect(await lines(registry)).toEqual(await lines(theirs));
    }),
  );
});
