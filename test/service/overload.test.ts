import { describe, expect, it } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import {
  QUEUE_MS,
  READ_MS,
  REFUSE_MS,
  simulate,
  type Outcomes,
  type Pool,
  type Simulation,
} from './simulated-service.js';

// Simulated, so that no result depends on the machine. `npm run bench -- --only overload` measures the same for real.
describe('a simulated service', () => {
  const { queueBurstMs, maxPending } = readConfiguration({});
  const limits = { queueBurstMs, maxPending };
  const WARM_MS = 0.11;
  const COLD_MS = 0.46;
  /** The first requests take twice as long, until the code is compiled. */
  const startUp = (served: number) => COLD_MS * Math.max(1, 2.2 - served / 80);

  const run = (simulation: Omit<Simulation, 'limits'>) => simulate({ ...simulation, limits });
  const refusedShare = ({ served, refused, gaveUp }: Outcomes) =>
    refused.length / (served.length + refused.length + gaveUp);
  /** Requests answered within the 200 ms that Envoy waits, as a share of what a service without a queue could do. */
  const goodput = ({ served }: Outcomes, costMs: number, milliseconds: number) =>
    (served.filter(({ took }) => took <= 200).length * costMs) / milliseconds;
  const p99 = (tooks: readonly { readonly took: number }[]) =>
    tooks.map(({ took }) => took).toSorted((a, b) => a - b)[Math.floor(0.99 * tooks.length)];

  it.each([
    ['200 at once right after the start', 200, startUp],
    ['1,000 at once', 1000, () => WARM_MS],
  ])('serves a burst: %s', (_, clients, cost) => {
    const outcomes = run({ clients, requestsEach: 1, cost, milliseconds: 2000 });
    expect([outcomes.served.length, outcomes.refused.length]).toEqual([clients, 0]);
  });

  it('refuses of a larger burst only what would have waited for too long', () => {
    const outcomes = run({ clients: 1000, requestsEach: 1, cost: startUp, milliseconds: 2000 });
    expect(outcomes.refused.length).toBeGreaterThan(0);
    for (const { took } of outcomes.refused) expect(took).toBeGreaterThan(queueBurstMs);
    const servedMs = outcomes.served.reduce((sum, _request, at) => sum + startUp(at), 0);
    // The rest is reading and refusing.
    expect(servedMs / Math.max(...outcomes.served.map(({ at }) => at))).toBeGreaterThan(0.7);
  });

  it.each([
    [512, WARM_MS],
    [1000, WARM_MS],
    [256, COLD_MS],
  ])('refuses nobody of %i clients that wait for their answers, at %d ms each', (clients, costMs) => {
    const outcomes = run({ clients, cost: () => costMs, milliseconds: 10_000 });
    expect(refusedShare(outcomes)).toBe(0);
    expect(goodput(outcomes, costMs, 10_000)).toBeGreaterThan(0.85);
  });

  it.each([1.1, 2, 3])('answers in time at %d times the load it can serve', (factor) => {
    const outcomes = run({ rate: factor / COLD_MS, cost: () => COLD_MS, milliseconds: 10_000 });
    expect(goodput(outcomes, COLD_MS, 10_000)).toBeGreaterThan(0.8);
    expect(p99(outcomes.served)).toBeLessThan(queueBurstMs + 25);
    expect(outcomes.longestTurnMs).toBeLessThan(50);
  });

  const between = (requests: Outcomes['served'], from: number, to: number) =>
    requests.filter(({ at }) => at >= from && at < to);

  // Callers who share connections, as those of a gateway do. With few connections nothing waits in the service; with many
  // it refuses by itself. What is between collapsed before it was seen that callers give up.
  const POOLED_MS = 0.15;
  const EACH_MS = READ_MS + QUEUE_MS;
  const CAPACITY = 1 / (POOLED_MS + EACH_MS);
  const pooled = (connections: number, factor: number, more: Partial<Pool> = {}) =>
    run({
      pool: { connections, rate: factor * CAPACITY, patienceMs: 1000, ...more },
      ...{ cost: () => POOLED_MS, milliseconds: 20_000 },
    });
  /** What could be served beside the refusal of all others, a millisecond. */
  const possible = (factor: number) =>
    Math.min(factor * CAPACITY, (1 - factor * CAPACITY * (EACH_MS + REFUSE_MS)) / (POOLED_MS - REFUSE_MS));

  it.each(
    [64, 256, 512, 1000, 2000, 4000].flatMap((connections) =>
      [0.9, 1.05, 1.5, 3].map((factor) => [connections, factor] as const),
    ),
  )('does not collapse where callers give up: %i connections, %d times the load', (connections, factor) => {
    const { served, refused, gaveUp, ...outcomes } = pooled(connections, factor);
    expect(served.length / 20_000 / possible(factor)).toBeGreaterThan(0.93);
    expect(gaveUp / (served.length + refused.length + gaveUp)).toBeLessThan(0.05);
    const there = served.map(({ tookThere: took }) => ({ took }));
    expect(p99(there)).toBeLessThan(queueBurstMs + 35);
    expect(outcomes.longestTurnMs).toBeLessThan(150);
  });

  it.each([64, 256, 1000])('serves everybody again within a second: %i connections', (connections) => {
    // A flood of three seconds above what the callers ask all the time.
    const pool = { untilMs: 3000, then: { rate: 0.7 * CAPACITY } };
    const { served, refused } = pooled(connections, 3, pool);
    expect(between(served, 0, 3000).length).toBeGreaterThan(3000);
    expect(between(refused, 4000, 20_000)).toEqual([]);
    expect(p99(between(served, 4000, 20_000))).toBeLessThan(50);
  });

  it('refuses nobody while it has rest, whoever gives up', () => {
    // One in ten of these callers gives up at once, for reasons of its own.
    const { refused, gaveUp } = pooled(64, 0.5, { impatientShare: 0.1 });
    expect(gaveUp).toBeGreaterThan(1000);
    expect(refused).toEqual([]);
  });

  it('does not collapse where clients that are refused ask again at once', () => {
    const outcomes = run({ clients: 1000, cost: () => COLD_MS, milliseconds: 10_000 });
    expect(goodput(outcomes, COLD_MS, 10_000)).toBeGreaterThan(0.7);
  });

  it.each([WARM_MS, COLD_MS])(
    'does not collapse where 1,000 clients give up after 200 ms, at %d ms each',
    (costMs) => {
      const stalls = [[1000, 300]] as const;
      const outcomes = run({
        clients: 1000,
        patienceMs: 200,
        cost: () => costMs,
        milliseconds: 10_000,
        stalls,
      });
      expect(outcomes.gaveUp).toBeGreaterThan(0);
      expect(goodput(outcomes, costMs, 10_000)).toBeGreaterThan(0.7);
    },
  );

  it('serves all others while one client floods it', () => {
    const outcomes = run({
      ...{ clients: 20, rate: 3 / WARM_MS, cost: () => WARM_MS, milliseconds: 5000 },
      address: (client) => `${client}`,
    });
    const others = [...outcomes.served, ...outcomes.refused].filter(({ client }) => client >= 0);
    expect(outcomes.refused.some(({ client }) => client === -1)).toBe(true);
    expect(outcomes.refused.filter(({ client }) => client >= 0)).toEqual([]);
    expect(p99(others)).toBeLessThan(100);
  });
});
