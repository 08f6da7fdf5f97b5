import { describe, expect, it } from 'vitest';
import { Backlog, type BacklogLimits } from '../../src/service/load/backlog.js';

// `overload.test.ts` simulates a service with it, in `npm run test:long`.
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

  it('remembers for a second without a request of a client that its callers gave up', () => {
    const { backlog: one, signatures, time, endTurn } = backlog();
    signatures.waitMs = 5;
    for (let interval = 0; interval < 4; interval++) {
      one.hasTime({ client: 'a' });
      one.gaveUp('a');
      endTurn();
      time.now += 100;
    }
    expect([one.hasTime({ client: 'a' }), one.hasTime({ client: 'b' })]).toEqual([false, true]);
    time.now += 900;
    endTurn();
    expect(one.hasTime({ client: 'a' })).toBe(false);
    time.now += 1001;
    endTurn();
    expect(one.hasTime({ client: 'a' })).toBe(true);
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
