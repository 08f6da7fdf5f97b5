import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Counter, Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { Distribution, SECONDS } from '../../src/service/observe/metrics/metrics.js';
import { METRICS, show } from '../../src/service/observe/metrics/metrics-table.js';

it('has each metric in docs/observability.md with its labels, and no other', () => {
  const page = readFileSync(new URL('../../docs/observability.md', import.meta.url), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| `drs_'));
  const documented = rows.flatMap((line) =>
    [...(line.split(' | ')[0] ?? '').matchAll(/`(drs_\w+)(?:\{([\w,]+)\})?`/g)].map(
      ([, name, labels = '']) => [name, labels],
    ),
  );
  // Those of what is there once are not told.
  const once = new Set(['drs_build_info', 'drs_config_info']);
  const wanted = METRICS.map(([name, , , labels]) => [name, once.has(name) ? '' : labels.join()]);
  expect(documented.sort()).toEqual(wanted.sort());
});

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
      const byEndpoint = new Map(ENDPOINTS.map((endpoint) => [endpoint, new Distribution(SECONDS)]));
      show(registry, [[NAME, 'histogram', HELP, ['endpoint'], () => byEndpoint]], null);
      const oracle = new Histogram({
        name: NAME,
        help: HELP,
        labelNames: ['endpoint'],
        buckets: SECONDS,
        registers: [theirs],
      });
      for (const [endpoint, duration] of durations) {
        byEndpoint.get(endpoint)?.observe(duration);
        oracle.observe({ endpoint }, duration);
      }
      expect(await lines(registry)).toEqual(await lines(theirs));
    }),
  );
});

it("shows what prom-client's own histogram shows, without a label and before anything was observed", async () => {
  const [registry, theirs] = [new Registry(), new Registry()];
  const distribution = new Distribution(SECONDS);
  show(registry, [[NAME, 'histogram', HELP, [], () => distribution]], null);
  const oracle = new Histogram({ name: NAME, help: HELP, buckets: SECONDS, registers: [theirs] });
  expect(await lines(registry)).toEqual(await lines(theirs));
  for (const one of [distribution, oracle]) one.observe(0.0002);
  expect(await lines(registry)).toEqual(await lines(theirs));
});

it("shows what prom-client's own counter shows, with two labels", async () => {
  const [registry, theirs] = [new Registry(), new Registry()];
  const counts = { verify: new Map([[200, 3]]), other: [['4"\n', 1.5]] as [string, number][] };
  show(registry, [[NAME, 'counter', HELP, ['endpoint', 'status'], () => counts]], null);
  const oracle = new Counter({
    name: NAME,
    help: HELP,
    labelNames: ['endpoint', 'status'],
    registers: [theirs],
  });
  oracle.labels('verify', '200').inc(3);
  oracle.labels('other', '4"\n').inc(1.5);
  expect(await lines(registry)).toEqual(await lines(theirs));
  counts.verify.set(200, 4);
  oracle.labels('verify', '200').inc();
  expect(await lines(registry)).toEqual(await lines(theirs));
});

it('shows nothing of a part that is off, and the name alone of a metric that has no series yet', async () => {
  const registry = new Registry();
  show(
    registry,
    [
      ['of_nothing', 'gauge', HELP, [], (part: { open: number } | null) => part?.open],
      ['empty_total', 'counter', HELP, ['status'], () => new Map()],
    ],
    null,
  );
  expect(await registry.metrics()).toBe(`# HELP empty_total ${HELP}\n# TYPE empty_total counter\n`);
});
