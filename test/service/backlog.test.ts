import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { Backlog, type BacklogLimits } from '../../src/service/load/backlog.js';
import { Fifo } from '../../src/service/load/round-robin.js';
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

const LIMITS: BacklogLimits = { queueBurstMs: 1000, maxPending: 10_000 };

/** A backlog in an event loop whose time and turns the test decides. */
function backlog(limits = LIMITS) {
  const signatures = { waitMs: 0 };
  const turns: (() => void)[] = [];
  const pauses: (() => void)[] = [];
  const time = { now: 1000 };
  const backlog = new Backlog(limits, signatures, {
    now: () => time.now,
    defer: (turn) => turns.push(turn),
    pause: (turn) => pauses.push(turn),
  });
  const served: string[] = [];
  const refused: string[] = [];
  const counts: Record<string, number> = {};
  return {
    ...{ backlog, signatures, time, served, refused, turns, pauses },
    endTurn: () => turns.splice(0).forEach((turn) => turn()),
    /** Lets requests of a client wait that take so long each: `a0`, `a1` and so on. @returns how many may wait */
    add: (count: number, milliseconds = 1, client = 'a') => {
      let waiting = 0;
      for (let n = 0; n < count; n++) {
        const name = `${client}${(counts[client] = (counts[client] ?? -1) + 1)}`;
        const isWaiting = backlog.add(client, (isLate) => {
          (isLate ? refused : served).push(name);
          time.now += milliseconds;
        });
        if (isWaiting) waiting++;
      }
      return waiting;
    },
    addLarge: (name: string, milliseconds: number, client = 'a') =>
      backlog.addLarge(client, (isLate) => {
        (isLate ? refused : served).push(name);
        time.now += milliseconds;
      }),
  };
}

describe('the backlog', () => {
  it('leaves to the next turns what comes after a turn has worked for long', () => {
    const { backlog: one, time, endTurn } = backlog();
    expect(one.hasTime({ client: 'a' })).toBe(true);
    time.now += 14;
    expect(one.hasTime({ client: 'a' })).toBe(true);
    time.now += 1;
    expect(one.hasTime({ client: 'a' })).toBe(false);
    endTurn();
    expect(one.hasTime({ client: 'a' })).toBe(true);
  });

  it('has one turn ahead, also where what is served lets more wait', () => {
    const { backlog: one, time, turns, pauses } = backlog();
    const again = () => {
      time.now += 1;
      one.add('a', again);
    };
    again();
    for (let turn = 0; turn < 5; turn++) {
      expect([turns.length, pauses.length]).toEqual([1, 0]);
      turns.splice(0).forEach((end) => end());
    }
  });

  it('serves a slice in each turn, oldest first, and nothing that has just come before what waits', () => {
    const { backlog: one, served, add, endTurn, turns } = backlog();
    add(7);
    expect([one.length, turns.length]).toEqual([7, 1]);
    endTurn();
    expect([served, one.hasTime({ client: 'a' })]).toEqual([['a0', 'a1', 'a2'], false]);
    add(1);
    endTurn();
    expect(served).toEqual(['a0', 'a1', 'a2', 'a3', 'a4', 'a5']);
    endTurn();
    expect([served.length, one.length, turns.length]).toEqual([8, 0, 0]);
    expect(one.hasTime({ client: 'a' })).toBe(true);
  });

  it('serves one in a turn that takes longer than a slice', () => {
    const { served, add, endTurn } = backlog();
    add(2, 50);
    endTurn();
    expect(served).toEqual(['a0']);
    endTurn();
    expect(served).toEqual(['a0', 'a1']);
  });

  it('serves for three times as long as a turn did other work, within limits', () => {
    const { served, time, add, endTurn } = backlog();
    const servedAfter = (othersMs: number) => {
      const before = served.length;
      time.now += othersMs;
      endTurn();
      return served.length - before;
    };
    add(1000);
    expect([0, 1, 2, 4, 6, 100].map(servedAfter)).toEqual([3, 3, 6, 12, 12, 12]);
  });

  it('counts the other work of a turn from its first request, if nothing waited before', () => {
    const { backlog: one, served, time, add, endTurn } = backlog();
    time.now += 100;
    expect(one.hasTime({ client: 'a' })).toBe(true);
    time.now += 3;
    add(100);
    endTurn();
    expect(served).toHaveLength(9);
  });

  it('refuses what has waited too long, in its turn and for a bounded time', () => {
    const { served, refused, time, add, endTurn } = backlog({ ...LIMITS, queueBurstMs: 100 });
    add(12);
    time.now += 100;
    endTurn();
    expect([served, refused]).toEqual([['a0'], ['a1', 'a2', 'a3', 'a4', 'a5']]);
    add(1);
    endTurn();
    expect(refused).toHaveLength(10);
    endTurn();
    expect([served, refused.length]).toEqual([['a0', 'a12'], 11]);
  });

  it('gives the clients turns, so that one who asks often delays only itself', () => {
    const { served, refused, time, add, endTurn } = backlog({ ...LIMITS, queueBurstMs: 100 });
    add(500, 1, 'flood');
    add(2, 1, 'b');
    add(1, 1, 'c');
    endTurn();
    expect(served).toEqual(['flood0', 'b0', 'c0']);
    time.now += 97.5;
    add(1, 1, 'c');
    endTurn();
    // `b` waited as long as the flood, `c` did not; who is refused takes no time from who is served.
    expect(served.slice(3)).toEqual(['c1']);
    expect(refused).toContain('b1');
    expect(refused).toHaveLength(5);
  });

  it('lets a client have half of the places', () => {
    const { add, endTurn, backlog: one } = backlog({ ...LIMITS, maxPending: 8 });
    expect([add(6), add(2, 1, 'b'), one.length]).toEqual([4, 2, 6]);
    endTurn();
    expect(add(6)).toBe(2);
  });

  it('has the large bodies of clients take turns, so that those of one wait for each other', () => {
    const { served, refused, addLarge, endTurn } = backlog();
    for (let n = 0; n < 12; n++) addLarge(`a${n}`, 300);
    addLarge('b0', 300, 'b');
    addLarge('c0', 300, 'c');
    addLarge('b1', 300, 'b');
    for (let turn = 0; turn < 16; turn++) endTurn();
    expect(served).toEqual(['a0', 'b0', 'c0', 'a1']);
    expect(refused).toEqual(['b1', ...Array.from({ length: 10 }, (_, n) => `a${n + 2}`)]);
  });

  it('gives a large body a turn of its own, beside the others, and refuses it after a second', () => {
    const { served, refused, turns, addLarge, add, endTurn } = backlog();
    addLarge('x', 500);
    addLarge('y', 500);
    addLarge('z', 1);
    addLarge('late', 1);
    add(1, 0);
    endTurn();
    expect(served).toEqual(['x', 'a0']);
    endTurn();
    expect(served).toEqual(['x', 'a0', 'y']);
    endTurn();
    expect([served.at(-1), refused]).toEqual(['z', []]);
    endTurn();
    expect([served.length, refused, turns.length]).toEqual([4, ['late'], 0]);
  });

  it('has one turn ahead where a large body lets others wait for busy threads', () => {
    const { backlog: one, signatures, turns, pauses, add, endTurn } = backlog();
    signatures.waitMs = 12;
    one.addLarge('a', () => void add(1));
    endTurn();
    expect([one.length, turns.length, pauses.length]).toEqual([1, 1, 0]);
  });

  it('serves for three times as long as it has refused, too', () => {
    const { served, refused, time, add, endTurn } = backlog({ ...LIMITS, queueBurstMs: 100 });
    add(8, 1, 'late');
    time.now += 101;
    add(20, 1, 'b');
    endTurn();
    expect([served.length, refused.length]).toEqual([12, 5]);
  });

  it('hands the threads no more than they can do within a few turns, and leaves them the cores meanwhile', () => {
    const { backlog: one, signatures, served, add, endTurn, turns, pauses } = backlog();
    signatures.waitMs = 12;
    expect(one.hasTime({ client: 'a' })).toBe(false);
    add(2);
    endTurn();
    expect([served.length, turns.length, pauses.length]).toEqual([0, 0, 1]);
    add(1);
    expect([turns.length, pauses.length]).toEqual([0, 1]);
    signatures.waitMs = 11;
    pauses.splice(0).forEach((turn) => turn());
    expect(served).toEqual(['a0', 'a1', 'a2']);
  });

  it('refuses what waits too long for threads that do not come to it', () => {
    const { signatures, refused, time, add, endTurn, pauses } = backlog();
    signatures.waitMs = 12;
    add(2);
    endTurn();
    time.now += 1001;
    pauses.splice(0).forEach((turn) => turn());
    expect(refused).toEqual(['a0', 'a1']);
  });
});

describe('a line', () => {
  it('takes as long for each, however many wait', () => {
    const line = new Fifo<number>();
    const count = 200_000;
    const { user: before } = process.cpuUsage();
    for (let n = 0; n < count; n++) line.push(n);
    for (let n = 0; n < count; n++) if (line.first !== n || line.shift() !== n) expect.unreachable(`at ${n}`);
    expect([line.length, line.first, line.shift(), line.length]).toEqual([0, undefined, undefined, 0]);
    // It takes 40 ms; to move all the others for each would take ten seconds and more.
    expect(process.cpuUsage().user - before).toBeLessThan(5_000_000);
  });

  it('keeps no place for those that have left', () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const heldBytes = () => {
      gc();
      return process.memoryUsage().heapUsed;
    };
    const line = new Fifo<number>();
    const before = heldBytes();
    for (let n = 0; n < 2_000_000; n++) {
      line.push(n);
      if (n > 3) line.shift();
    }
    // Eight bytes for each would be 16 MB.
    expect(heldBytes() - before).toBeLessThan(4_000_000);
    expect(line.length).toBe(4);
  });
});

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
