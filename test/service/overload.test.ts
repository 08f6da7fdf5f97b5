import { describe, expect, it } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import {
  QUEUE_MS,
  READ_MS,
  REFUSE_AT_ONCE_MS,
  simulate,
  type Outcomes,
  type Pool,
  type Simulation,
} from './simulated-service.js';

// Simulated, so that no result depends on the machine. `npm run bench -- --only overload` measures the same for real.
describe('a simulated service', () => {
  const limits = readConfiguration({});
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

  it('serves a burst that takes half a second', () => {
    const { served, refused } = run({
      clients: 1000,
      requestsEach: 1,
      cost: () => COLD_MS,
      milliseconds: 2000,
    });
    expect([served.length, refused.length]).toEqual([1000, 0]);
  });

  // As a process held to a third of a core, or with busy neighbours.
  it('refuses nobody who waits, however slow the machine is', () => {
    const stalls = Array.from({ length: 100 }, (_, n) => [n * 100, 67] as const);
    const { served, refused } = run({ clients: 256, cost: () => COLD_MS, milliseconds: 10_000, stalls });
    expect(served.length).toBeGreaterThan(6000);
    expect(refused).toEqual([]);
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

  // A flood from clients that neither wait nor go: what bounds it is MAX_PENDING.
  it.each([1.1, 2, 3])(
    'serves as much as it can at %d times the load, where nobody tells that he gave up',
    (factor) => {
      const outcomes = run({ rate: factor / COLD_MS, cost: () => COLD_MS, milliseconds: 10_000 });
      expect((outcomes.served.length * COLD_MS) / 10_000).toBeGreaterThan(0.8);
      expect(p99(outcomes.served)).toBeLessThan((limits.maxPending / 2) * COLD_MS * 1.2);
      expect(outcomes.longestTurnMs).toBeLessThan(50);
    },
  );

  const between = (requests: Outcomes['served'], from: number, to: number) =>
    requests.filter(({ at }) => at >= from && at < to);

  // Callers who share connections, as those of a gateway do. With few connections nothing waits in the service; with many
  // it refuses by itself. What is between collapsed before it was seen that callers give up.
  const POOLED_MS = 0.15;
  const EACH_MS = READ_MS + QUEUE_MS;
  const CAPACITY = 1 / (POOLED_MS + EACH_MS);
  const pooled = (connections: number, factor: number, more: Partial<Pool> = {}, costMs = POOLED_MS) =>
    run({
      pool: { connections, rate: factor / (costMs + EACH_MS), patienceMs: 1000, ...more },
      ...{ cost: () => costMs, milliseconds: 20_000 },
    });
  /** What could be served beside the refusal of all others, a millisecond. */
  const possible = (factor: number) => {
    const refusalMs = READ_MS + REFUSE_AT_ONCE_MS;
    const rest = (1 - factor * CAPACITY * refusalMs) / (POOLED_MS + EACH_MS - refusalMs);
    return Math.min(factor * CAPACITY, rest);
  };

  it.each(
    [64, 256, 512, 1000, 2000, 4000].flatMap((connections) =>
      [0.9, 1.05, 1.5, 3].map((factor) => [connections, factor] as const),
    ),
  )('does not collapse where callers give up: %i connections, %d times the load', (connections, factor) => {
    const { served, gaveUp, ...outcomes } = pooled(connections, factor);
    const offered = factor * CAPACITY * 20_000;
    // With few connections, the next request comes only when one is answered: what waits at the callers ends more slowly.
    const isSmall = connections === 64;
    expect(served.length / 20_000 / possible(factor)).toBeGreaterThan(isSmall ? 0.8 : 0.93);
    expect(gaveUp / offered).toBeLessThan(isSmall ? 0.1 : 0.02);
    // As long as nobody gives up, whole pools may wait.
    const there = served.map(({ tookThere: took }) => ({ took }));
    const pool = Math.min(connections, limits.maxPending / 2);
    expect(p99(there)).toBeLessThan(20 + 1.5 * pool * (POOLED_MS + EACH_MS));
    expect(outcomes.longestTurnMs).toBeLessThan(50);
  });

  it.each([256, 1000])('does not collapse at five times the load: %i connections', (connections) => {
    const { served } = pooled(connections, 5, {}, COLD_MS / 2);
    expect(between(served, 10_000, 20_000).length).toBeGreaterThan(0.85 * between(served, 0, 10_000).length);
  });

  it.each([
    [64, 6000],
    [256, 5000],
    [1000, 5000],
  ])('serves everybody again soon: %i connections', (connections, wellAt) => {
    // A flood of three seconds above what the callers ask all the time.
    const pool = { untilMs: 3000, then: { rate: 0.7 * CAPACITY } };
    // How many wait at the callers when it ends is chance. Those are served or refused first, and over few connections one after the other.
    const p99s = [2.8, 2.9, 3, 3.1, 3.2].map((factor) => {
      const { served, refused } = pooled(connections, factor, pool);
      expect(between(served, 0, 3000).length).toBeGreaterThan(3000);
      expect(between(refused, 5000, 20_000)).toEqual([]);
      return p99(between(served, wellAt, 20_000)) ?? Infinity;
    });
    expect(p99s.toSorted((a, b) => a - b)[2]).toBeLessThan(50);
  });

  it('refuses nobody while it has rest, whoever gives up', () => {
    // One in ten of these callers gives up at once, for reasons of its own.
    const { refused, gaveUp } = pooled(64, 0.5, { impatientShare: 0.1 });
    expect(gaveUp).toBeGreaterThan(1000);
    expect(refused).toEqual([]);
  });

  // From one address: a gateway without TRUST_PROXY, a Unix socket, a gateway over gRPC.
  it.each([
    ['eight each 250 ms', 8, 250],
    ['two hundred each 250 ms', 200, 250],
  ])('lets nobody pay for neighbours who close early on purpose: %s', (_, requests, everyMs) => {
    const honest = Array.from({ length: 100 }, (_burst, n) => ({
      at: n * 120,
      requests: 12,
      isClosed: false,
    }));
    const closed = Array.from({ length: 16 }, (_burst, n) => ({
      ...{ at: 1000 + n * everyMs, requests, isClosed: true },
    }));
    const outcomes = run({ bursts: [...honest, ...closed], cost: () => COLD_MS, milliseconds: 13_000 });
    expect(outcomes.refused).toEqual([]);
    expect(outcomes.gaveUp).toBeGreaterThan(0);
    expect(outcomes.served.length + outcomes.gaveUp).toBe(1200 + 16 * requests);
  });

  it('refuses nobody for callers who close, among others who fill it and wait', () => {
    // One in twenty of those who are served.
    const closed = Array.from({ length: 1000 }, (_, n) => ({ at: n * 10, requests: 1, isClosed: true }));
    const outcomes = run({ clients: 256, bursts: closed, cost: () => COLD_MS, milliseconds: 10_000 });
    expect(outcomes.gaveUp).toBeGreaterThan(900);
    expect(outcomes.refused).toEqual([]);
  });

  it('bounds the wait of those who give up and stay by the number of their connections', () => {
    const { served } = pooled(256, 3, { stays: true });
    expect(served.length / 20_000 / CAPACITY).toBeGreaterThan(0);
    expect(p99(served.map(({ tookThere: took }) => ({ took })))).toBeLessThan(
      256 * (POOLED_MS + EACH_MS) * 1.3,
    );
  });

  it('does not collapse where 1,000 clients give up after 200 ms, and again refuses nobody when they wait', () => {
    const stalls = [[1000, 300]] as const;
    const outcomes = run({
      ...{ clients: 1000, patienceMs: 200, cost: () => WARM_MS, milliseconds: 10_000, stalls },
    });
    expect(outcomes.gaveUp).toBeGreaterThan(0);
    expect(goodput(outcomes, WARM_MS, 10_000)).toBeGreaterThan(0.7);
    expect(between(outcomes.refused, 5000, 10_000)).toEqual([]);
  });

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
