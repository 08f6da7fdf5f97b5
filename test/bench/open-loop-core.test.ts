import { describe, expect, it } from 'vitest';
import {
  intendedTimes,
  OpenLoopCore,
  type Line,
  type OpenLoopRules,
  type Underway,
} from '../../bench/load/open-loop-core.js';

/**
 * The generator's bookkeeping in virtual time: a server whose delay for each request is known, so that every latency
 * is known to the µs, whatever the machine does.
 */
function simulate(
  intended: OpenLoopRules['intended'],
  {
    connections,
    answer,
    rules = {},
    tickEvery = 10,
  }: {
    connections: number;
    /** Delay in µs and status for the n-th request sent; `null`: never an answer. */
    answer: (n: number, sentAt: number) => { delay: number; status?: number; text?: string } | null;
    rules?: Partial<OpenLoopRules>;
    tickEvery?: number;
  },
) {
  let now = 0;
  let sent = 0;
  const events: { at: number; run: () => void }[] = [];
  const usedBy: number[] = [];
  const closed: number[] = [];
  const line = (id: number): Line => ({
    send: (_, underway: Underway) => {
      usedBy.push(id);
      const planned = answer(sent++, now);
      if (planned === null) return;
      const { delay, status = 200, text = 'right' } = planned;
      events.push({ at: now + delay, run: () => core.answered(underway, status, text) });
    },
    close: () => closed.push(id),
  });
  let opened = 0;
  const core = new OpenLoopCore(
    {
      intended,
      warmUpSeconds: 0,
      patienceMs: null,
      closesGivenUp: true,
      mayRefuse: false,
      marker: 'right',
      ...rules,
    },
    {
      now: () => now,
      next: () => ({ bytes: Buffer.alloc(0), answer: 'right' }),
      replace: () => core.add(line(opened++)),
    },
  );
  while (opened < connections) core.add(line(opened++));
  for (let guard = 0; !core.isDone && guard < 1e6; guard++) {
    core.tick();
    now += tickEvery;
    for (const event of events.filter(({ at }) => at <= now).sort((a, b) => a.at - b.at)) {
      events.splice(events.indexOf(event), 1);
      event.run();
      core.tick();
    }
  }
  return { tally: core.tally, usedBy, closed };
}

const even = (rate: number, count: number) => intendedTimes('even', rate, count);

describe('the open loop in virtual time', () => {
  it('reports exactly what the server took, from the intended time', () => {
    const { tally } = simulate(even(1000, 500), {
      connections: 50,
      answer: (n) => ({ delay: n % 10 === 0 ? 5_000 : 2_000 }),
    });
    expect(tally.latencies.totalCount).toBe(500);
    // Ticks of 10 µs, three digits of the histogram.
    for (const [at, micros] of [
      [50, 2_000],
      [89, 2_000],
      [91, 5_000],
      [100, 5_000],
    ] as const) {
      expect(tally.latencies.getValueAtPercentile(at)).toBeGreaterThanOrEqual(micros);
      expect(tally.latencies.getValueAtPercentile(at)).toBeLessThanOrEqual(micros * 1.001 + 20);
    }
    expect(tally.sendDelays.maxValue).toBeLessThanOrEqual(10);
  });

  it('counts a stall for each request that was due in it, however few connections there are', () => {
    const stall = { from: 100_000, to: 1_100_000 };
    const { tally } = simulate(even(400, 800), {
      connections: 8,
      answer: (_, sentAt) => ({
        delay: sentAt >= stall.from && sentAt < stall.to ? stall.to - sentAt : 1_000,
      }),
    });
    // 400 requests were due in that second; the k-th of them waited for the rest of it, at least.
    expect(tally.latencies.getValueAtPercentile(100 - (100 * 200) / 800)).toBeGreaterThan(490_000);
    // The wait for one of the eight connections is recorded separately from the delay of the generator.
    expect(tally.connectionWaits.maxValue).toBeGreaterThan(900_000);
    expect(tally.sendDelays.maxValue).toBeLessThanOrEqual(20);
  });

  it('says when it was late itself', () => {
    const { tally } = simulate(even(1000, 100), {
      ...{ connections: 10, answer: () => ({ delay: 100 }), tickEvery: 3_000 },
    });
    expect(tally.sendDelays.maxValue).toBeGreaterThanOrEqual(1_900);
    expect(tally.connectionWaits.maxValue).toBe(1);
  });

  it('uses its connections in turn, since a service closes one that is idle', () => {
    const { usedBy } = simulate(even(1000, 200), { connections: 8, answer: () => ({ delay: 300 }) });
    expect(usedBy).toEqual(Array.from({ length: 200 }, (_, n) => n % 8));
  });

  it('leaves warm-up out of every count but that of wrong answers', () => {
    const { tally } = simulate(even(1000, 300), {
      connections: 10,
      answer: (n) => ({ delay: 100, text: n === 5 || n === 250 ? 'wrong' : 'right' }),
      rules: { warmUpSeconds: 0.1 },
    });
    expect([tally.answered, tally.latencies.totalCount, tally.wrong]).toEqual([200, 200, 2]);
    expect(tally.firstWrong).toBe('200 wrong');
  });

  it('gives up after its patience, sent or not, and goes on with new connections', () => {
    const { tally, closed } = simulate(even(100, 400), {
      connections: 4,
      answer: (n) => (n >= 100 && n < 120 ? null : { delay: 500, status: n % 2 === 0 ? 200 : 503 }),
      rules: { patienceMs: 100, mayRefuse: true },
    });
    expect(closed).toHaveLength(20);
    expect(tally.timedOut).toBeGreaterThanOrEqual(20);
    expect(tally.answered + tally.refused + tally.timedOut).toBe(400);
    expect(tally.wrong).toBe(0);
  });

  it('keeps the connection of one that gave up, and uses it again when the late answer has come', () => {
    const { tally, usedBy, closed } = simulate(even(100, 40), {
      connections: 2,
      answer: (n) => ({ delay: n === 3 ? 200_000 : 500 }),
      rules: { patienceMs: 100, closesGivenUp: false },
    });
    expect(closed).toEqual([]);
    expect([tally.answered, tally.timedOut, tally.wrong]).toEqual([39, 1, 0]);
    const [late, other] = [usedBy[3] as number, usedBy[4] as number];
    // The answer comes when 23 requests have been sent.
    expect(usedBy.slice(4, 23)).toEqual(Array(19).fill(other));
    expect(usedBy.slice(24)).toContain(late);
  });

  it('lets each client of a crowd ask again when it has its answer, until the time is over', () => {
    const { tally, usedBy } = simulate(
      { requests: Infinity, untilMicros: 100_000 },
      { connections: 4, answer: (n) => ({ delay: n % 4 === 3 ? 10_000 : 1_000 }) },
    );
    expect(new Set(usedBy)).toEqual(new Set([0, 1, 2, 3]));
    expect([tally.answered, tally.wrong]).toEqual([usedBy.length, 0]);
    // Latencies count from the sending: nobody waited for a connection.
    expect(tally.latencies.maxValue).toBeLessThanOrEqual(10_040);
    expect(tally.connectionWaits.maxValue).toBe(1);
    // Without the slow quarter there would be 400 answers; each takes a slow client's place ten times.
    expect(tally.answered).toBeGreaterThan(100);
    expect(tally.answered).toBeLessThan(200);
  });

  it('lets a burst ask once, and a client that gives up comes back on a new connection', () => {
    const { tally, usedBy, closed } = simulate(
      { requests: 20, untilMicros: 1e6 },
      {
        connections: 10,
        answer: (n) => (n === 3 ? null : { delay: 500, status: n === 4 ? 503 : 200 }),
        rules: { patienceMs: 50, mayRefuse: true },
      },
    );
    expect(usedBy).toHaveLength(20);
    expect([tally.answered, tally.refused, tally.timedOut, tally.wrong]).toEqual([18, 1, 1, 0]);
    expect(closed).toEqual([3]);
  });

  it('takes a refusal for a wrong answer where none is expected', () => {
    const { tally } = simulate(even(100, 10), {
      ...{ connections: 4, answer: () => ({ delay: 100, status: 503 }) },
    });
    expect([tally.answered, tally.wrong]).toEqual([10, 10]);
  });
});

describe('arrivals', () => {
  it('are a Poisson process of the right rate, the same for the same seed', () => {
    const count = 20_000;
    const times = intendedTimes('poisson', 1000, count, 5);
    expect(times).toEqual(intendedTimes('poisson', 1000, count, 5));
    expect(times).not.toEqual(intendedTimes('poisson', 1000, count, 6));
    const gaps = [...times].slice(1).map((at, n) => at - (times[n] ?? 0));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
    // Of exponential gaps both are 1/rate.
    expect(mean).toBeGreaterThan(970);
    expect(mean).toBeLessThan(1030);
    expect(deviation / mean).toBeGreaterThan(0.95);
    expect(deviation / mean).toBeLessThan(1.05);
  });
});
